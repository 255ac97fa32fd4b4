-- Return the server's time, and the value of each key.
local found = redis.call('TIME')
for i = 1, #KEYS do
  found[#found + 1] = value_of(KEYS[i])
end
return found
