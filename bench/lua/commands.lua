-- The commands of decide.lua and nothing else: the floor of any script that reads the clock, reads states, and writes
-- each with its time to live.
redis.call('TIME')
redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], 't:1796041503674602:0:1000:86400000000', 'PX', '86400000')
end
return 1
