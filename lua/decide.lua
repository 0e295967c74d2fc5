
local count = #KEYS
if count == 0 or count ~= #ARGV then
  return redis.error_reply('SLUICE there are not as many keys as checks, or no checks at all')
end

-- One check needs none of the tables: they would be an eighth of what it costs.
local is_one = count == 1
-- By key: what its next check is to see, and how long that is to be kept if it has changed.
local states, ttls_us
-- By check: the reply's part, and what the key's state and its time were before.
local told, was, was_ttls_us
if not is_one then
  -- Read. MGET and not GET: it takes a key of a foreign type for one that is not there.
  states, ttls_us, told, was, was_ttls_us = {}, {}, {}, {}, {}
  for first = 1, count, 1000 do
    local last = math.min(first + 999, count)
    local values = call('MGET', unpack(KEYS, first, last))
    for i = first, last do
      states[KEYS[i]] = values[i - first + 1]
    end
  end
end

-- Decide, request by request. The checks of a batch are mostly alike: an argument that is the one before needs no
-- unpacking again.
local argument, kind, flags, limit, period, burst, cost, want, share, ending
local algorithms = { token_bucket, fixed_window, sliding_window }
local algorithm, align, is_shadow, goes_on
-- Of the request at hand: its first check, and whether it is admitted so far.
local first, admitted = 1, true
for i = 1, count do
  local key = KEYS[i]
  if ARGV[i] ~= argument then
    argument = ARGV[i]
    if #argument >= SIZE then
      kind, flags, limit, period, burst, cost, want, share = struct.unpack(CHECK, argument)
    end
    if
      #argument < SIZE
      or not (algorithms[kind] and flags <= 7 and limit <= MAX_COUNT and burst <= MAX_COUNT)
      or not (period >= 1 and period <= MAX_PERIOD_US and cost <= MAX_COUNT)
      or not (burst * period <= limit * MAX_REFILL_US or limit == 0)
      or LEASES and not (want <= MAX_COUNT and share <= 1000000)
    then
      return redis.error_reply('SLUICE check ' .. i .. ': unknown algorithm, or number out of range')
    end
    algorithm, align, is_shadow, goes_on = algorithms[kind], flags % 2 == 1, flags % 4 >= 2, flags >= 4
    ending = argument:sub(SIZE + 1)
  end
  if goes_on and i == count then
    return redis.error_reply('SLUICE check ' .. i .. ': its request goes on, and no check follows')
  end

  local state
  if is_one then
    state = call('MGET', key)[1]
  else
    state = states[key]
  end
  local allowed, remaining, retry_us, reset_us, new_state, ttl_us
  if limit == 0 then
    allowed, remaining, retry_us, reset_us = false, 0, -1, 0
  else
    allowed, remaining, retry_us, reset_us, new_state, ttl_us =
      algorithm(now_us, state, limit, period, burst, cost, align, ending)
  end
  local ahead = 0
  if LEASES and allowed and new_state then
    -- As much as is wanted, but only a share of what remains.
    local most = remaining * share
    ahead = math.min(want, (most - most % 1000000) / 1000000)
    if ahead > 0 then
      -- What remains can be taken: this is allowed too.
      allowed, remaining, retry_us, reset_us, new_state, ttl_us =
        algorithm(now_us, state, limit, period, burst, cost + ahead, align, ending)
    end
  end
  local charge = allowed and new_state and now_us + reset_us or 0
  local reply = pack(REPLY, allowed and 1 or 0, remaining, retry_us, reset_us, charge, ahead)
  if is_one then
    if new_state then
      call('SET', key, new_state, 'PX', string.format('%d', (ttl_us + 999) / 1000 + TTL_SLACK_MS))
    end
    return answer(reply)
  end

  told[i] = reply
  if goes_on or first < i then
    was[i], was_ttls_us[i] = state, ttls_us[key]
  end
  -- New states count at once, for the request's own later checks to see.
  if new_state then
    states[key], ttls_us[key] = new_state, ttl_us
  end
  admitted = admitted and (allowed or is_shadow)
  if not goes_on then
    if first < i and not admitted then
      -- Take back what was charged, and only that: a repair stays.
      for j = i, first, -1 do
        local _, _, _, _, charged = struct.unpack(REPLY, told[j])
        if charged > 0 then
          states[KEYS[j]], ttls_us[KEYS[j]] = was[j], was_ttls_us[j]
        end
      end
      -- The checks that allowed have reported a charge that was not made.
      for j = first, i do
        if struct.unpack('<i8', told[j]) == 1 then
          kind, flags, limit, period, burst = struct.unpack(CHECK, ARGV[j])
          local _, left, _, reset =
            algorithms[kind](now_us, states[KEYS[j]], limit, period, burst, 0, flags % 2 == 1)
          told[j] = pack(REPLY, 1, left, 0, reset, 0, 0)
        end
      end
      argument = nil -- what has been unpacked is another's
    end
    first, admitted = i + 1, true
  end
end

-- Write.
for key, ttl_us in pairs(ttls_us) do
  call('SET', key, states[key], 'PX', string.format('%d', (ttl_us + 999) / 1000 + TTL_SLACK_MS))
end
return answer(table.concat(told))
