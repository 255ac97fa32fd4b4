-- Do what `QuotaMeter.take` does: let an attempt through now, after a wait, or not at all. Return the wait, whether it
-- is granted, and the processes of the last minute. `fsm/health/quota.py` has the theory: `meter.requests` and
-- `meter.tokens` are the moments when all that was let through would have come, had it come evenly.
local tokens, longest, lease = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local process, forgotten, poll = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local backend, tiny = ARGV[11], tonumber(ARGV[12])
local units = {requests = 1, tokens = tokens}
put(meter.peers, process, now + 60)
meter.name, meter.quota = backend, {ARGV[1], ARGV[2], ARGV[3]}
local wait, is_given = 0, 1
if not place_of(meter.leases, attempt) then
  local place = quota.concurrent and (place_of(meter.queue, attempt) or #meter.queue + 1)
  if place then
    wait = poll * (1 + math.floor((place - 1) / (2 * quota.concurrent)))
    put(meter.queue, attempt, now + wait + forgotten)
  end
  if place and place > quota.concurrent - #meter.leases then
    is_given = 0
  else
    wait = 0
    local even = {} -- the moments as they are once this attempt is let through
    for name, count in pairs(units) do
      even[name] = meter[name]
      if quota[name] then
        even[name] = math.max(meter[name], now) + count * 60 / quota[name]
      end
      wait = math.max(wait, even[name] - 60 - now)
    end
    if wait <= tiny then wait = 0 end
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
