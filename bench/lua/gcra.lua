-- The generic cell rate algorithm as libraries commonly have it: floating-point seconds by the server's clock, one key
-- that holds the time of theoretical arrival, numbers told as texts.
--   KEYS[1] the cell   ARGV: burst, rate, period in seconds, cost
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local interval = period / rate
local clock = redis.call('TIME')
-- Seconds since 2025: a double has more digits left for the fraction.
local now = (clock[1] - 1735689600) + clock[2] / 1000000

local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
arrival = math.max(arrival, now)
local after = arrival + interval * cost
local spare = now - (after - interval * burst)
local remaining = spare / interval
if remaining < 0 then
  return { 0, 0, tostring(-spare), tostring(arrival - now) }
end
local reset = after - now
if reset > 0 then
  redis.call('SET', KEYS[1], after, 'EX', math.ceil(reset))
end
return { cost, remaining, tostring(-1), tostring(reset) }
