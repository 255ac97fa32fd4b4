-- What the scripts of quotas and budgets share: the time, and how to read and search a value.
local time = redis.call('TIME')
local now = time[1] - EPOCH + time[2] / 1000000 -- few digits: JSON keeps fourteen
local function table_of(key)
  local is_json, value = pcall(cjson.decode, value_of(key))
  return is_json and type(value) == 'table' and value or {}
end
local function place_of(list, what)
  for i = 1, #list do
    if list[i][1] == what then return i end
  end
end
local function drop(list, what)
  local place = place_of(list, what)
  if place then table.remove(list, place) end
  return place
end
