
-- a * b / c as quotient and remainder, exactly, for a and c <= 2^45 and a quotient below 2^53.
local function muldiv(a, b, c)
  local product = a * b
  if product < 2 ^ 53 then
    local remainder = product % c
    return (product - remainder) / c, remainder
  end
  -- Long division, seven bits of b at a time: remainder * 128 + a * digit stays below 2^53.
  local place = 1
  while place * 128 <= b do
    place = place * 128
  end
  local quotient, remainder = 0, 0
  while place >= 1 do
    local below = b % place
    local part = remainder * 128 + a * ((b - below) / place)
    remainder = part % c
    quotient = quotient * 128 + (part - remainder) / c
    b, place = below, place / 128
  end
  return quotient, remainder
end

-- Each algorithm is a function
--   (now, state, limit, period, burst, cost, align, ending)
--   -> allowed, remaining, retry_after_us, reset_us, new_state, ttl_us
-- of its arguments and of nothing else. `state` is as stored, false if there is none; anything unreadable counts as
-- none. `new_state` is nil when there is nothing to write. `limit` is at least 1 here.
