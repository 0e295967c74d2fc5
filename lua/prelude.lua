
-- Every number is an integer below 2^53, where a double is exact. Where a product would be larger,
-- muldiv() computes it in parts: no decision depends on rounding.
-- They are written with %d, which a Redis of 64 bits prints exactly, and several times as fast as %.0f.

-- Redis makes every function anew for each run. A local that one captures takes some 350 instructions, a look-up of
-- `string.format` some 200: so functions are given what they need, the time included, and look up the rest.

local tonumber, call = tonumber, redis.call
local KEYS, ARGV = KEYS, ARGV

local MAX_COUNT = 1e9 -- limit, burst and cost
local MAX_PERIOD_US = 2 ^ 45
local MAX_REFILL_US = 2 ^ 52 -- so that now + refill stays below 2^53
-- State outlives its window by this much. Not needed while the clock is steady: it keeps a failover to
-- a server whose clock is a little ahead from forgetting a window that its clients still live in.
local TTL_SLACK_MS = 1000

local now_us
local first_argument = ARGV[1] or ''
if first_argument == '' or #first_argument >= SIZE then
  local time = call('TIME')
  now_us = time[1] * 1e6 + time[2]
else
  now_us = tonumber(first_argument)
  if not (now_us and now_us >= 0 and now_us < MAX_REFILL_US and now_us % 1 == 0) then
    return redis.error_reply('SLUICE now must be whole microseconds since the epoch, or empty')
  end
end
