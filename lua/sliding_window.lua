
-- Sliding window: two windows aligned to the epoch; the previous one counts with the share of it that
-- the last `period` still covers, rounded up: current + ceil(previous * left / period) <= limit.
-- State "s:<index>:<current>:<previous>:<period_us>".
local function sliding_window(now, state, limit, period, _, cost)
  local index = (now - now % period) / period
  local left = (index + 1) * period - now
  local current, previous, repair = 0, 0, false
  local had_index, had_current, had_previous, had_period =
    string.match(state or '', '^s:(%d+):(%d+):(%d+):(%d+)$')
  if had_index then
    had_index, had_current = tonumber(had_index), tonumber(had_current)
    had_previous, had_period = tonumber(had_previous), tonumber(had_period)
    if had_period ~= period then
      -- Windows of another length: put each count where the latest charge it can hold would be.
      local had_start = had_index * had_period
      local latest = had_start + had_period - 1
      if latest > now then
        latest = now
      end
      local behind = index - (latest - latest % period) / period
      if behind == 0 then
        current = had_current
      elseif behind == 1 then
        previous = had_current
      end
      behind = index - (had_start - 1 - (had_start - 1) % period) / period
      if behind <= 0 then
        current = current + had_previous
      elseif behind == 1 then
        previous = previous + had_previous
      end
      repair = true
    elseif had_index >= index then
      -- An index ahead of now: the clock was set back, and what was counted counts from now.
      current, previous, repair = had_current, had_previous, had_index > index
    elseif had_index == index - 1 then
      previous = had_current
    end
  elseif state then
    current = used(now, state)
  end

  local weighted = 0
  if previous > 0 then
    local quotient, remainder = muldiv(previous, left, period)
    weighted = remainder > 0 and quotient + 1 or quotient
  end
  local total = current + weighted
  if cost == 0 or total + cost <= limit then
    if cost == 0 then
      return true, limit > total and limit - total or 0, 0, current > 0 and left + period or previous > 0 and left or 0
    end
    return true, limit - total - cost, 0, left + period,
      string.format('s:%d:%d:%d:%d', index, current + cost, previous, period), left + period
  end

  local retry
  if cost > limit then
    retry = -1
  elseif current + cost <= limit then
    -- Still in this window, when `previous` has slid out far enough.
    retry = left - muldiv(limit - current - cost, period, previous)
  else
    -- In the next one, where `current` is what slides out.
    retry = left + period - muldiv(limit - cost, period, current)
  end
  local new_state
  if repair then
    new_state = string.format('s:%d:%d:%d:%d', index, current, previous, period)
  end
  return false, limit > total and limit - total or 0, retry,
    current > 0 and left + period or previous > 0 and left or 0, new_state, left + period
end
