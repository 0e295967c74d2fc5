
-- Read. MGET and not GET: it takes a key of a foreign type for one that is not there.
local states, ttls_us = {}, {}
for first = 1, #KEYS, 1000 do
  local last = math.min(first + 999, #KEYS)
  local values = call('MGET', unpack(KEYS, first, last))
  for i = first, last do
    states[KEYS[i]] = values[i - first + 1]
  end
end

-- How many arguments a check has, and how many integers the reply tells of it.
local WIDTH, TOLD = LEASES and 8 or 6, LEASES and 6 or 5

-- Decides the check whose arguments start at ARGV[at]. The first result is nil if one of them is out of
-- range; the last two say whether the check is a shadow, and what was granted ahead.
local function evaluate(state, at, is_peek)
  local name, limit, period = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local burst, cost, flags = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local algorithm = name == 'token_bucket' and token_bucket
    or name == 'fixed_window' and fixed_window
    or name == 'sliding_window' and sliding_window
  if
    not (algorithm and limit and period and burst and cost and flags)
    or not (limit >= 0 and limit <= MAX_COUNT and burst >= 0 and burst <= MAX_COUNT)
    or not (period >= 1 and period <= MAX_PERIOD_US and cost >= 0 and cost <= MAX_COUNT)
    or not (flags >= 0 and flags <= 3 and (burst * period <= limit * MAX_REFILL_US or limit == 0))
    or limit % 1 + period % 1 + burst % 1 + cost % 1 + flags % 1 > 0
  then
    return nil
  elseif limit == 0 then
    return false, 0, -1, 0, nil, nil, flags >= 2, 0
  end
  local align, ahead = flags % 2 == 1, 0
  local allowed, remaining, retry_us, reset_us, new_state, ttl_us =
    algorithm(state, limit, period, burst, is_peek and 0 or cost, align)
  if LEASES then
    local want, share = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
    if
      not (want and share and want >= 0 and want <= MAX_COUNT and share >= 0 and share <= 1000000)
      or want % 1 + share % 1 > 0
    then
      return nil
    end
    if allowed and new_state then
      -- As much as is wanted, but only a share of what remains.
      local most = remaining * share
      ahead = math.min(want, (most - most % 1000000) / 1000000)
    end
    if ahead > 0 then
      -- What remains can be taken: this is allowed too.
      allowed, remaining, retry_us, reset_us, new_state, ttl_us =
        algorithm(state, limit, period, burst, cost + ahead, align)
    end
  end
  return allowed, remaining, retry_us, reset_us, new_state, ttl_us, flags >= 2, ahead
end

-- Decide, request by request. `states` is always what the next check is to see.
local reply, out = { 0, 0, 0, 0, 0 }, 0
local argument, key_count = 2, 0
while argument <= #ARGV do
  local n = tonumber(ARGV[argument])
  if not n or n < 1 or n % 1 ~= 0 or key_count + n > #KEYS or argument + WIDTH * n > #ARGV then
    return redis.error_reply('SLUICE the numbers of checks, keys and arguments do not fit each other')
  end

  -- New states go into `states` at once, for the request's own later checks to see. If the request is
  -- denied, `undo` takes its charges back, and only those: a repair stays.
  local admitted, undo = true, nil
  for i = 1, n do
    local key = KEYS[key_count + i]
    local allowed, remaining, retry_us, reset_us, new_state, ttl_us, is_shadow, ahead =
      evaluate(states[key], argument + 1 + WIDTH * (i - 1), false)
    if allowed == nil then
      return redis.error_reply('SLUICE check ' .. key_count + i .. ': unknown algorithm, or number out of range')
    end
    if not (allowed or is_shadow) then
      admitted = false
    end
    if new_state then
      if allowed and n > 1 then
        undo = { key = key, state = states[key], ttl_us = ttls_us[key], before = undo }
      end
      states[key], ttls_us[key] = new_state, ttl_us
    end
    reply[out + 1], reply[out + 2] = allowed and 1 or 0, remaining
    reply[out + 3], reply[out + 4] = retry_us, reset_us
    reply[out + 5] = allowed and new_state and now + reset_us or 0
    if LEASES then
      reply[out + 6] = ahead
    end
    out = out + TOLD
  end

  while undo and not admitted do
    states[undo.key], ttls_us[undo.key] = undo.state, undo.ttl_us
    undo = undo.before
  end
  if n > 1 and not admitted then
    -- The checks that allowed have reported a charge that was not made.
    for i = 1, n do
      local at = out - TOLD * (n - i + 1) + 1
      if reply[at] == 1 then
        local _, remaining, _, reset_us =
          evaluate(states[KEYS[key_count + i]], argument + 1 + WIDTH * (i - 1), true)
        reply[at + 1], reply[at + 3], reply[at + 4] = remaining, reset_us, 0
        if LEASES then
          reply[at + 5] = 0
        end
      end
    end
  end
  argument, key_count = argument + WIDTH * n + 1, key_count + n
end
if out == 0 or key_count ~= #KEYS then
  return redis.error_reply('SLUICE there are more keys than checks, or no checks at all')
end

-- Write.
for key, ttl_us in pairs(ttls_us) do
  call('SET', key, states[key], 'PX', format('%d', (ttl_us + 999) / 1000 + TTL_SLACK_MS))
end
return reply
