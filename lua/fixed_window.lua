
-- Fixed window: at most `limit` per window. The window starts at its first charge, or with align at the
-- last multiple of the period since the epoch.
-- State "f:<count>:<end_us>:<period_us>". The period makes the window's start known, so that a changed
-- period moves the end of the window that is running.
local function fixed_window(now, state, limit, period, _, cost, align)
  local count, start, repair = 0, now, false
  if align then
    start = now - now % period
  end
  local had, had_end, had_period = string.match(state or '', '^f:(%d+):(%d+):(%d+)$')
  if had then
    had_period = tonumber(had_period)
    local had_start = had_end - had_period
    if had_start > now then
      -- The clock was set back. The count stays, in a window that starts now: nobody gets a second
      -- window, and nobody waits longer than one.
      count, repair = tonumber(had), true
    elseif align and had_start >= start or not align and had_start + period > now then
      count, repair = tonumber(had), had_period ~= period
      if not align then
        start = had_start
      end
    end
  elseif state then
    count = used(now, state)
  end

  local left = start + period - now
  local total = count + cost
  if total > limit and cost > 0 then
    local new_state
    if repair then
      new_state = string.format('f:%d:%d:%d', count, start + period, period)
    end
    return false, limit > count and limit - count or 0, cost > limit and -1 or left,
      count > 0 and left or 0, new_state, left
  end
  if cost == 0 then
    return true, limit > count and limit - count or 0, 0, count > 0 and left or 0
  end
  return true, limit - total, 0, left, string.format('f:%d:%d:%d', total, start + period, period), left
end
