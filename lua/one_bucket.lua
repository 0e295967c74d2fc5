
-- One check of one bucket is what most runs are for. If it is as simple, it is decided here and now, without the
-- functions and tables that all else needs.
if #ARGV == 1 and #KEYS == 1 and #first_argument > SIZE then
  local kind, flags, limit, period, burst, cost = struct.unpack(CHECK, first_argument)
  if
    kind == 1 and flags < 4 and limit >= 1 and limit <= MAX_COUNT
    and period >= 1 and period <= MAX_PERIOD_US and burst <= MAX_COUNT
  then
    local allowed, remaining, retry_us, reset_us, new_state = whole_bucket(
      now_us, call('MGET', KEYS[1])[1], limit, period, burst, cost, first_argument:sub(SIZE + 1))
    if new_state then
      call('SET', KEYS[1], new_state, 'PX', string.format('%d', (reset_us + 999) / 1000 + TTL_SLACK_MS))
    end
    if remaining then
      return struct.pack(REPLY, allowed and 1 or 0, remaining, retry_us, reset_us, allowed and now_us + reset_us or 0)
    end
  end
end
