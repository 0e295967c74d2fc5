
-- Token bucket: holds `burst` tokens and refills `limit` per `period`, continuously. One token takes
-- period / limit microseconds to refill; a charge moves the time at which the bucket is full again that
-- far into the future (the generic cell rate algorithm of ITU-T I.371, told from the bucket's side).
-- State "<full_at_us>", or "<full_at_us>+<rest>/<limit>" where that time falls between two microseconds.
-- Rests are kept, never rounded, or a busy key would lose a bit of its rate with every request.

-- How long the bucket needs to be full: microseconds, and rest/limit of one.
local function token_bucket_missing(state, limit)
  local full_at, rest = tonumber(state or 0), 0
  if not full_at then
    local whole, had_rest, had_limit = match(state, '^(%d+)%+(%d+)/(%d+)$')
    full_at = tonumber(whole or 0)
    if had_rest then
      if tonumber(had_limit) == limit then
        rest = tonumber(had_rest)
      else
        full_at = full_at + 1 -- thirds are not sevenths: round up, once
      end
    end
  end
  local missing = full_at - now
  if missing < 0 or missing ~= missing then -- full already, or not a number at all
    return 0, 0
  end
  return missing, rest
end

local function token_bucket_state(missing, rest, limit)
  if rest > 0 then
    return format('%.0f+%.0f/%.0f', now + missing, rest, limit)
  end
  return now + missing
end

local function token_bucket(state, limit, period, burst, cost)
  local capacity, capacity_rest = muldiv(burst, period, limit)

  local missing, rest = token_bucket_missing(state, limit)
  local repair = false
  if missing > capacity or missing == capacity and rest > capacity_rest then
    -- A smaller bucket than before, or a clock that was set back: empty is as empty as it gets.
    missing, rest, repair = capacity, capacity_rest, true
  end

  local allowed, retry = true, 0
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
  local reset = rest > 0 and missing + 1 or missing
  local new_state
  if cost > 0 and (allowed or repair) then
    new_state = token_bucket_state(missing, rest, limit)
  end
  return allowed, burst - tokens, retry, reset, new_state, reset
end
