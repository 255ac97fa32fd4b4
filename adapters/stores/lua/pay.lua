-- Do what `QuotaMeter.settle` does.
local unused, asked_wait, was_sent = tonumber(ARGV[5]), tonumber(ARGV[8]), ARGV[9] ~= '0'
local left = {requests = tonumber(ARGV[6]), tokens = tonumber(ARGV[7])} -- as the provider says
drop(meter.queue, attempt)
if drop(meter.leases, attempt) then
  if quota.tokens then meter.tokens = meter.tokens - unused * 60 / quota.tokens end
  if quota.requests and not was_sent then meter.requests = meter.requests - 60 / quota.requests end
end
for name, count in pairs(left) do
  if quota[name] then meter[name] = math.max(meter[name], now + 60 * (1 - count / quota[name])) end
end
if asked_wait then
  local of_one = quota.requests and 60 / quota.requests or 0
  meter.requests = math.max(meter.requests, now + asked_wait + 60 - of_one)
end
save()
