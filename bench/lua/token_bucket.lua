-- The textbook's token bucket: what is left and when it was looked at, in two keys, both read and both written.
-- It has the textbook's faults, which lua/README.md tells. The caller's clock: whole milliseconds in ARGV[3].
--   KEYS[1] the bucket   ARGV: capacity, tokens per millisecond, now
local left = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
local seen = tonumber(redis.call('GET', KEYS[1] .. ':at') or ARGV[3])
left = math.min(tonumber(ARGV[1]), left + math.floor((ARGV[3] - seen) * ARGV[2]))
if left < 1 then
  return 0
end
redis.call('SET', KEYS[1], left - 1)
redis.call('SET', KEYS[1] .. ':at', ARGV[3])
return 1
