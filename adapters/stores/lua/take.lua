-- Do what `QuotaMeter.take` does; return the wait, whether it is granted, and the processes of the last minute.
local units, longest, lease = {requests = 1, tokens = tonumber(ARGV[5])}, tonumber(ARGV[6]), tonumber(ARGV[7])
put(meter.peers, ARGV[8], now + 60)
meter.name, meter.quota = ARGV[11], {ARGV[1], ARGV[2], ARGV[3]}
local wait, is_given = 0, 1
if not place_of(meter.leases, attempt) then
  local place = quota.concurrent and (place_of(meter.queue, attempt) or #meter.queue + 1)
  if place then
    wait = tonumber(ARGV[10]) * (1 + math.floor((place - 1) / (2 * quota.concurrent)))
    put(meter.queue, attempt, now + wait + tonumber(ARGV[9]))
  end
  if place and place > quota.concurrent - #meter.leases then
    is_given = 0
  else
    wait = 0
    local even = {}
    for name, count in pairs(units) do
      even[name] = quota[name] and math.max(meter[name], now) + count * 60 / quota[name] or meter[name]
      wait = math.max(wait, even[name] - 60 - now)
    end
    wait = wait > tonumber(ARGV[12]) and wait or 0
    drop(meter.queue, attempt)
    if wait > longest then
      is_given = 0
    else
      meter.requests, meter.tokens = even.requests, even.tokens
      put(meter.leases, attempt, now + lease) -- which is renewed while it waits
    end
  end
end
save()
return {tostring(wait), is_given, #meter.peers}
