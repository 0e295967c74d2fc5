
-- Every number is an integer below 2^53, where a double is exact. Where a product would be larger,
-- muldiv() computes it in parts: no decision depends on rounding.
-- They are written with %d, which a Redis of 64 bits prints exactly, and several times as fast as %.0f.

local tonumber, format, match = tonumber, string.format, string.match
local KEYS, ARGV, call = KEYS, ARGV, redis.call

local MAX_COUNT = 1e9 -- limit, burst and cost
local MAX_PERIOD_US = 2 ^ 45
local MAX_REFILL_US = 2 ^ 52 -- so that now + refill stays below 2^53
local EXACT = 2 ^ 53
-- State outlives its window by this much. Not needed while the clock is steady: it keeps a failover to
-- a server whose clock is a little ahead from forgetting a window that its clients still live in.
local TTL_SLACK_MS = 1000

local now = tonumber(ARGV[1])
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1e6 + time[2]
elseif not (now and now >= 0 and now < MAX_REFILL_US and now % 1 == 0) then
  return redis.error_reply('SLUICE now must be whole microseconds since the epoch, or empty')
end

-- a * b / c as quotient and remainder, exactly, for a and c <= 2^45 and a quotient below 2^53.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local remainder = product % c
    return (product - remainder) / c, remainder
  end
  -- Long division, seven bits of b at a time: remainder * 128 + a * digit stays below 2^53.
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

-- Each algorithm is a function
--   (state, limit, period, burst, cost, align)
--   -> allowed, remaining, retry_after_us, reset_us, new_state, ttl_us
-- of a state as stored (false if there is none; anything unreadable counts as none) and of `now`, and of
-- nothing else. new_state is nil when there is nothing to write. `limit` is at least 1 here.
