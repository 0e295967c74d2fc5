-- The textbook's fixed window: a counter that is read, increased, and expires with the window that its first request
-- began.
--   KEYS[1] the counter   ARGV: limit, seconds
local count = tonumber(redis.call('GET', KEYS[1]) or 0)
if count >= tonumber(ARGV[1]) then
  return 0
end
if redis.call('INCR', KEYS[1]) == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 1
