
-- The arguments that people write become those that the sidecar sends. For it to send these would be simpler, and dear:
-- a number that is an argument of its own takes Redis 3,500 instructions, and to unpack all six of a check 2,300.

local pack = struct.pack
local is_by_hand = #first_argument < SIZE
if is_by_hand then
  local kinds = { token_bucket = 1, fixed_window = 2, sliding_window = 3 }
  local width = LEASES and 8 or 6
  local most = { MAX_COUNT, MAX_PERIOD_US, MAX_COUNT, MAX_COUNT, 3, MAX_COUNT, 1000000 }
  local packed, at = {}, 2
  while at <= #ARGV do
    local n = tonumber(ARGV[at])
    if not n or n < 1 or n % 1 ~= 0 or #packed + n > #KEYS or at + width * n > #ARGV then
      return redis.error_reply('SLUICE the numbers of checks, keys and arguments do not fit each other')
    end
    for i = 1, n do
      local kind, numbers = kinds[ARGV[at + 1]], {}
      for j = 1, width - 1 do
        local number = tonumber(ARGV[at + 1 + j])
        if not (kind and number and number >= 0 and number <= most[j] and number % 1 == 0) then
          return redis.error_reply(
            'SLUICE check ' .. #packed + 1 .. ': unknown algorithm, or number out of range'
          )
        end
        numbers[j] = number
      end
      local limit, period, burst, cost, flags, want, share = unpack(numbers)
      packed[#packed + 1] =
        pack(CHECK, kind, flags + (i < n and 4 or 0), limit, period, burst, cost, want, share)
        .. (kind == 1 and string.format(':0:%d:%d', limit, period) or '')
      at = at + width
    end
    at = at + 1
  end
  ARGV = packed
end

-- What is replied, to whom it was asked by.
local function answer(reply)
  if not is_by_hand then
    return reply
  end
  local integers = {}
  for at = 1, #reply, 8 do
    integers[#integers + 1] = struct.unpack('<i8', reply, at)
  end
  return integers
end
