-- Do what `QuotaMeter.settle` does.
local left = {requests = tonumber(ARGV[6]), tokens = tonumber(ARGV[7])}
drop(meter.queue, attempt)
if drop(meter.leases, attempt) then
  if quota.tokens then meter.tokens = meter.tokens - ARGV[5] * 60 / quota.tokens end
  if quota.requests and ARGV[9] == '0' then meter.requests = meter.requests - 60 / quota.requests end
end
for name, count in pairs(left) do
  if quota[name] then meter[name] = math.max(meter[name], now + 60 * (1 - count / quota[name])) end
end
if tonumber(ARGV[8]) then
  meter.requests = math.max(meter.requests, now + ARGV[8] + 60 - (quota.requests and 60 / quota.requests or 0))
end
save()
