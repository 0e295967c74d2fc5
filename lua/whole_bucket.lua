
-- A token bucket where every number comes out whole, as with most rates: what token_bucket.lua decides, in fewer
-- instructions. Nothing is returned if it is not as simple.
-- `ending` is how the state ends then.
local function whole_bucket(now, state, limit, period, burst, cost, ending)
  -- Nothing that is multiplied below is more than `product`.
  local product, step = burst * period, cost * period
  if cost < 1 or cost > burst or product > 2 ^ 52 or step % limit > 0 then
    return nil
  end
  -- A time has 16 digits until the year 2286. To compare and cut takes a third of what a pattern takes.
  local full_at = not state and now
    or state:sub(19) == ending and state:byte() == 116 and tonumber(state:sub(3, 18))
  local capacity = (product - product % limit) / limit
  if not full_at or full_at > now + capacity then
    return nil
  end
  local missing = full_at > now and full_at - now or 0
  local wanted = missing + step / limit
  if wanted > capacity then
    local parts = limit * missing + period - 1
    return false, burst - (parts - parts % period) / period, wanted - capacity, missing
  end
  local parts = limit * wanted + period - 1
  return true, burst - (parts - parts % period) / period, 0, wanted,
    string.format('t:%d', now + wanted) .. ending, wanted
end
