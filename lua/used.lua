
-- How much a state says is used now, by the numbers it was written under, rounded up: for states of another
-- algorithm. Changing a policy's algorithm gives nobody a fresh limit.
local function used(now, state)
  local count, end_us = string.match(state, '^f:(%d+):(%d+):%d+$')
  if count then
    return tonumber(end_us) > now and tonumber(count) or 0
  end
  local index, current, previous, period = string.match(state, '^s:(%d+):(%d+):(%d+):(%d+)$')
  if index then
    local behind = (now - now % period) / period - index
    if behind > 1 then
      return 0
    end
    local sliding = behind == 1 and current or previous
    local whole, rest = muldiv(tonumber(sliding), period - now % period, tonumber(period))
    return (behind == 1 and 0 or current) + whole + (rest > 0 and 1 or 0)
  end
  local full_at, fraction, limit, bucket_period = string.match(state, '^t:(%d+):(%d+):(%d+):(%d+)$')
  if full_at and tonumber(full_at) >= now then
    local tokens, rest = muldiv(tonumber(limit), full_at - now, tonumber(bucket_period))
    rest = rest + fraction + bucket_period - 1
    return tokens + (rest - rest % bucket_period) / bucket_period
  end
  return 0
end
