
-- Each returns the new state and in how many microseconds it means nothing any more, or nothing if the
-- charge does not count any more.
local function refund_fixed_window(state, cost, charge)
  local count, end_us, period = string.match(state, '^f:(%d+):(%d+):(%d+)$')
  if count and tonumber(end_us) == charge and now_us < charge then
    count = count - cost
    return string.format('f:%d:%s:%s', count > 0 and count or 0, end_us, period), charge - now_us
  end
end

local function refund_sliding_window(state, cost, charge)
  local index, current, previous, period = string.match(state, '^s:(%d+):(%d+):(%d+):(%d+)$')
  if not index or now_us >= charge then
    return nil
  end
  current, previous = tonumber(current), tonumber(previous)
  -- A charge counts until the end of the window after its own.
  local end_us = (index + 2) * period
  if end_us == charge then
    current = current - cost
  elseif end_us - period == charge then
    previous = previous - cost
  else
    return nil
  end
  return string.format('s:%s:%d:%d:%s', index, current > 0 and current or 0, previous > 0 and previous or 0, period),
    end_us - now_us
end

local function refund_token_bucket(state, limit, period, burst, cost, charge)
  local missing, rest = token_bucket_missing(now_us, state, limit, period)
  if not missing or now_us >= charge or missing == 0 and rest == 0 then
    return nil
  end
  local back, back_rest = muldiv(cost, period, limit)
  -- What has been refilled of the charge is not given back: without the charge, the bucket would have been
  -- full for a while, and would have lost it. What has not is `charge - now_us`, less the fraction of a
  -- microsecond that `charge` was rounded up by, or all that is missing if nobody has charged since.
  local left, left_rest = charge - now_us - 1, 0
  if limit <= period and charge == now_us + missing + (rest > 0 and 1 or 0) then
    left, left_rest = missing, rest
  end
  if left < back or left == back and left_rest < back_rest then
    back, back_rest = left, left_rest
  end
  missing, rest = missing - back, rest - back_rest
  if rest < 0 then
    missing, rest = missing - 1, rest + limit
  end
  local capacity, capacity_rest = muldiv(burst, period, limit)
  if missing < 0 then
    missing, rest = 0, 0
  elseif missing > capacity or missing == capacity and rest > capacity_rest then
    missing, rest = capacity, capacity_rest
  end
  return string.format('t:%d:%d:%d:%d', now_us + missing, rest, limit, period), rest > 0 and missing + 1 or missing
end

if #ARGV ~= 1 + 6 * #KEYS or #KEYS == 0 then
  return redis.error_reply('SLUICE the numbers of keys and arguments do not fit each other')
end

local states, ttls_us, reply = {}, {}, {}
for i = 1, #KEYS do
  local key, at = KEYS[i], 6 * i - 4
  local name, limit, period = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local burst, cost, charge = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  if
    not (limit and period and burst and cost and charge)
    or not (limit >= 1 and limit <= MAX_COUNT and burst >= 0 and burst <= MAX_COUNT)
    or not (period >= 1 and period <= MAX_PERIOD_US and cost >= 0 and cost <= MAX_COUNT)
    or not (charge >= 0 and charge < 2 ^ 53 and burst * period <= limit * MAX_REFILL_US)
    or limit % 1 + period % 1 + burst % 1 + cost % 1 + charge % 1 > 0
  then
    return redis.error_reply('SLUICE refund ' .. i .. ' has a number that is out of range')
  end
  if states[key] == nil then
    states[key] = call('MGET', key)[1]
  end
  local state = states[key] or ''
  local algorithm, new_state, ttl_us
  if name == 'token_bucket' then
    algorithm = token_bucket
    new_state, ttl_us = refund_token_bucket(state, limit, period, burst, cost, charge)
  elseif name == 'fixed_window' then
    algorithm = fixed_window
    new_state, ttl_us = refund_fixed_window(state, cost, charge)
  elseif name == 'sliding_window' then
    algorithm = sliding_window
    new_state, ttl_us = refund_sliding_window(state, cost, charge)
  else
    return redis.error_reply('SLUICE refund ' .. i .. ' has an unknown algorithm')
  end
  if new_state then
    states[key], ttls_us[key] = new_state, ttl_us
  end
  local _, remaining, _, reset_us = algorithm(now_us, states[key], limit, period, burst, 0, false)
  local out = #reply
  reply[out + 1], reply[out + 2], reply[out + 3] = new_state and 1 or 0, remaining, reset_us
end

for key, ttl_us in pairs(ttls_us) do
  call('SET', key, states[key], 'PX', string.format('%d', (ttl_us + 999) / 1000 + TTL_SLACK_MS))
end
return reply
