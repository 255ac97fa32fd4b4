-- What the scripts of quotas share: the meter of a backend.
local meter = table_of(KEYS[1])
for _, name in ipairs({'leases', 'queue', 'peers'}) do -- pairs of what, and until when
  local kept = {}
  for _, pair in ipairs(type(meter[name]) == 'table' and meter[name] or {}) do
    if type(pair) == 'table' and type(pair[1]) == 'string' and type(pair[2]) == 'number' and pair[2] > now then
      kept[#kept + 1] = pair
    end
  end
  meter[name] = kept
end
for _, name in ipairs({'requests', 'tokens'}) do
  if type(meter[name]) ~= 'number' then meter[name] = 0 end
end
local function put(list, what, expiry)
  list[place_of(list, what) or #list + 1] = {what, expiry}
end
local function save()
  redis.call('SET', KEYS[1], cjson.encode(meter), 'PX', 3600000)
end
local quota = {requests = tonumber(ARGV[1]), tokens = tonumber(ARGV[2]), concurrent = tonumber(ARGV[3])}
local attempt = ARGV[4]
