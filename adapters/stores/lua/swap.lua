-- Write a value if nobody has written another; return whether, and the value.
local value = value_of(KEYS[1])
if value ~= ARGV[1] then
  return {0, value}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {1, ARGV[2]}
