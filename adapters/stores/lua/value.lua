-- What all scripts share.
local function value_of(key)
  local value = redis.pcall('GET', key) -- an error is a table, and a key of another type none of ours
  return type(value) == 'string' and value or ''
end
