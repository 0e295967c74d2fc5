-- Sluice: decide rate limits, atomically.
--
-- Contract
--   KEYS[i]  state key of check i: the checks of all requests, in order
--   ARGV[1]  now, in microseconds since the Unix epoch; "" takes the server's clock (TIME)
--   ARGV     then per request: number of checks n, then n times
--            algorithm, limit, period_us, burst, cost, flags
--              algorithm  fixed_window | sliding_window | token_bucket
--              limit      0 to 1e9 per period; 0 denies everything
--              period_us  1 to 2^45 (407 days)
--              burst      1 to 1e9, token_bucket only: what the bucket holds; the others ignore it
--              cost       0 to 1e9; 0 is a peek
--              flags      sum of 1 (align a fixed window to multiples of the period) and
--                         2 (shadow: decide and count, but never deny the request)
--   reply    four integers per check: allowed (0/1), remaining, retry_after_us, reset_us
--              retry_after_us  0 if allowed, -1 if waiting does not help
--              reset_us        until the whole limit is available again if nothing else is taken
--
-- A request is charged only if all its enforced checks allow; then every check that allows is charged.
-- Requests are decided in order, each seeing the charges of those before it. A check that names a key
-- twice in one request sees the first charge too: the costs add up.
--
-- Everything is read and decided before the first write, so an error leaves nothing half done. Every
-- write carries its TTL. A denied request charges nothing; it may only shorten a wait that a changed
-- limit or a clock that was set back would make too long (see `repair` in each algorithm).
--
-- Every number is an integer below 2^53, where a double is exact. Where a product would be larger,
-- muldiv() computes it in parts: no decision depends on rounding.

local tonumber, format, match = tonumber, string.format, string.match
local KEYS, ARGV, call = KEYS, ARGV, redis.call

local MAX_COUNT = 1e9 -- limit, burst and cost
local MAX_PERIOD_US = 2 ^ 45
local MAX_REFILL_US = 2 ^ 52 -- so that now + refill stays below 2^53
local EXACT = 2 ^ 53
-- State outlives its window by this much. Not needed while the clock is steady: it keeps a failover to
-- a server whose clock is a little ahead from forgetting a window that its clients still live in.
local TTL_SLACK_MS = 1000

-- a * b / c as quotient and remainder, exactly, for a <= 2^30, c <= 2^45 and a quotient below 2^53.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local remainder = product % c
    return (product - remainder) / c, remainder
  end
  -- Long division, seven bits of b at a time: remainder * 128 stays below 2^52.
  local place = 1
  while place * 128 <= b do
    place = place * 128
  end
  local quotient, remainder = 0, 0
  while place >= 1 do
    local below = b % place
    local part = remainder * 128 + a * ((b - below) / place)
    remainder = part % c
    quotient = quotient * 128 + (part - remainder) / c
    b, place = below, place / 128
  end
  return quotient, remainder
end

-- Each algorithm is a pure function
--   (state, now, limit, period, burst, cost, align)
--   -> allowed, remaining, retry_after_us, reset_us, new_state, ttl_us
-- of a state as stored (false if there is none; anything unreadable counts as none). new_state is nil
-- when there is nothing to write. `limit` is at least 1 here.
