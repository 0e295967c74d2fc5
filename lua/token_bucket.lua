
-- Token bucket: holds `burst` tokens and refills `limit` per `period`, continuously. One token takes
-- period / limit microseconds to refill; a charge moves the time at which the bucket is full again that
-- far into the future (the generic cell rate algorithm of ITU-T I.371, told from the bucket's side).
-- State "t:<full_at_us>:<rest>:<limit>:<period_us>": full at full_at + rest/limit. Rests are kept, never
-- rounded, or a busy key would lose a bit of its rate with every request. Limit and period tell how many
-- tokens the time stands for, so that under a changed rate as many are missing as before.

-- How long the bucket needs to be full: microseconds, and rest/limit of one; nil if the state is not a
-- bucket's. The third result says whether it was written under another rate.
local function token_bucket_missing(now, state, limit, period)
  local full_at, rest, had_limit, had_period = string.match(state or '', '^t:(%d+):(%d+):(%d+):(%d+)$')
  if not full_at then
    return nil
  end
  local missing = full_at - now
  if missing < 0 then
    return 0, 0, false
  end
  rest, had_limit, had_period = tonumber(rest), tonumber(had_limit), tonumber(had_period)
  if had_limit == limit and had_period == period then
    return missing, rest, false
  end
  -- The tokens missing are (missing + rest/had_limit) * had_limit / had_period: whole ones and a fraction.
  local tokens, fraction = muldiv(had_limit, missing, had_period)
  fraction = fraction + rest
  tokens, fraction = tokens + (fraction - fraction % had_period) / had_period, fraction % had_period
  if tokens > 1e9 then
    return 2 ^ 53, 0, true -- more than any bucket holds
  end
  missing, rest = muldiv(tokens, period, limit)
  -- A fraction of a token is rounded up to a microsecond: no more is lost even if two sidecars with
  -- different rates take turns.
  local parts, below = muldiv(fraction, period, had_period)
  rest = rest + parts + (below > 0 and 1 or 0)
  return missing + (rest + limit - 1 - (rest + limit - 1) % limit) / limit, 0, true
end

local function token_bucket(now, state, limit, period, burst, cost, _, ending)
  local allowed, remaining, retry, reset, new_state, ttl =
    whole_bucket(now, state, limit, period, burst, cost, ending)
  if remaining then
    return allowed, remaining, retry, reset, new_state, ttl
  end
  local capacity, capacity_rest = muldiv(burst, period, limit)
  local missing, rest, repair = token_bucket_missing(now, state, limit, period)
  if not missing then
    missing, rest = muldiv(state and math.min(used(now, state), burst) or 0, period, limit)
  end
  if missing > capacity or missing == capacity and rest > capacity_rest then
    -- A smaller bucket than before, or a clock that was set back: empty is as empty as it gets.
    missing, rest, repair = capacity, capacity_rest, true
  end

  allowed, retry = true, 0
  if cost > burst then
    allowed, retry = false, -1
  elseif cost > 0 then
    local wanted, wanted_rest = muldiv(cost, period, limit)
    wanted, wanted_rest = missing + wanted, rest + wanted_rest
    if wanted_rest >= limit then
      wanted, wanted_rest = wanted + 1, wanted_rest - limit
    end
    if wanted < capacity or wanted == capacity and wanted_rest <= capacity_rest then
      missing, rest = wanted, wanted_rest
    else
      allowed = false
      retry = wanted - capacity + (wanted_rest > capacity_rest and 1 or 0)
    end
  end

  -- Tokens missing = (missing + rest/limit) * limit / period, rounded up.
  local tokens, remainder = muldiv(limit, missing, period)
  remainder = remainder + rest + period - 1
  tokens = tokens + (remainder - remainder % period) / period
  reset = rest > 0 and missing + 1 or missing
  if cost > 0 and (allowed or repair) then
    new_state = string.format('t:%d:%d:%d:%d', now + missing, rest, limit, period)
  end
  return allowed, burst - tokens, retry, reset, new_state, reset
end
