-- Renew what some attempts hold of quotas and budgets, and the probe of a backend; what has ended stays so.
for _, key in ipairs(KEYS) do
  local value, is_renewed = table_of(key), false
  for _, name in ipairs({'leases', 'holds'}) do
    local held = type(value[name]) == 'table' and value[name] or {}
    for i = 2, #ARGV do
      local place = place_of(held, ARGV[i])
      if place and held[place][2] > now then
        held[place][2] = now + ARGV[1]
        is_renewed = true
      end
    end
  end
  if type(value.tried_until) == 'number' and value.tried_until > now + EPOCH then -- the one probe that is out
    value.tried_until = now + EPOCH + ARGV[1]
    is_renewed = true
  end
  if is_renewed then redis.call('SET', key, cjson.encode(value), 'PX', math.max(redis.call('PTTL', key), 3600000)) end
end
