-- wrk's script. It does the same work per request in every row, whatever the number of keys: pick one of the requests
-- that were written before the clock started.
--
--   wrk -s load.lua URL -- PATH KEYS          GET PATH, each with one of KEYS values in x-key
--   wrk -s load.lua URL -- PATH KEYS CHECKS   POST to the sidecar itself, each a batch of CHECKS requests
--
-- Prints one line of JSON at the end.

local LEAST = 10000
local requests, at = {}, 0

local function key(number)
  return string.format('key-%07d', number)
end

local function get(path, number)
  return wrk.format('GET', path, { ['x-key'] = key(number) })
end

local function post(path, first, keys, checks)
  local batch = {}
  for i = 1, checks do
    local number = (first + i) % keys
    batch[i] = '{"checks":[{"policy":"token-bucket","key":["' .. key(number) .. '"]}]}'
  end
  local body = '{"requests":[' .. table.concat(batch, ',') .. ']}'
  return wrk.format('POST', path, { ['content-type'] = 'application/json' }, body)
end

function init(args)
  local path, keys, checks = args[1], tonumber(args[2]), tonumber(args[3])
  -- Bodies are large, and few of them are as good as many.
  local count = checks and 200 or math.max(LEAST, keys)
  for i = 1, count do
    requests[i] = checks and post(path, i * checks, keys, checks) or get(path, i % keys)
  end
  -- Each key as often as any other, in no order that a cache could like or dislike.
  math.randomseed(1)
  for i = count, 2, -1 do
    local j = math.random(i)
    requests[i], requests[j] = requests[j], requests[i]
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"not_2xx":%d,"broken":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout
  ))
end
