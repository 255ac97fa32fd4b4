"""What runs in Redis, each in one step. Values that are none of ours count as nothing."""

from typing import Final

VALUE: Final = """
local function value_of(key)
  local value = redis.pcall('GET', key) -- an error is a table, and a key of another type none of ours
  return type(value) == 'string' and value or ''
end
"""

READ: Final = f"""{VALUE}
local found = redis.call('TIME')
for i = 1, #KEYS do
  found[#found + 1] = value_of(KEYS[i])
end
return found
"""
"""Return the server's time, and the value of each key."""

SWAP: Final = f"""{VALUE}
local value = value_of(KEYS[1])
if value ~= ARGV[1] then
  return {{0, value}}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {{1, ARGV[2]}}
"""
"""Write a value if nobody has written another; return whether, and the value."""

EPOCH: Final = 1_700_000_000
"""The moment from which meters count, in seconds since 1970."""

METER: Final = f"""{VALUE}
local time = redis.call('TIME')
local now = time[1] - {EPOCH} + time[2] / 1000000 -- few digits: JSON keeps fourteen
local is_json, meter = pcall(cjson.decode, value_of(KEYS[1]))
if not is_json or type(meter) ~= 'table' then meter = {{}} end
for _, name in ipairs({{'leases', 'queue', 'peers'}}) do -- pairs of what, and until when
  local kept = {{}}
  for _, pair in ipairs(type(meter[name]) == 'table' and meter[name] or {{}}) do
    if type(pair) == 'table' and type(pair[1]) == 'string' and type(pair[2]) == 'number' and pair[2] > now then
      kept[#kept + 1] = pair
    end
  end
  meter[name] = kept
end
for _, name in ipairs({{'requests', 'tokens'}}) do
  if type(meter[name]) ~= 'number' then meter[name] = 0 end
end
local function place_of(list, what)
  for i = 1, #list do
    if list[i][1] == what then return i end
  end
end
local function put(list, what, expiry)
  list[place_of(list, what) or #list + 1] = {{what, expiry}}
end
local function drop(list, what)
  local place = place_of(list, what)
  if place then table.remove(list, place) end
  return place
end
local function save()
  redis.call('SET', KEYS[1], cjson.encode(meter), 'PX', 3600000)
end
local quota = {{requests = tonumber(ARGV[1]), tokens = tonumber(ARGV[2]), concurrent = tonumber(ARGV[3])}}
local attempt = ARGV[4]
"""

TAKE: Final = f"""{METER}
local units, longest, lease = {{requests = 1, tokens = tonumber(ARGV[5])}}, tonumber(ARGV[6]), tonumber(ARGV[7])
put(meter.peers, ARGV[8], now + 60)
meter.name, meter.quota = ARGV[11], {{ARGV[1], ARGV[2], ARGV[3]}}
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
    local even = {{}}
    for name, count in pairs(units) do
      even[name] = quota[name] and math.max(meter[name], now) + count * 60 / quota[name] or meter[name]
      wait = math.max(wait, even[name] - 60 - now)
    end
    drop(meter.queue, attempt)
    if wait > longest then
      is_given = 0
    else
      meter.requests, meter.tokens = even.requests, even.tokens
      put(meter.leases, attempt, now + wait + lease)
    end
  end
end
save()
return {{tostring(wait), is_given, #meter.peers}}
"""
"""Do what `QuotaMeter.take` does; return the wait, whether it is granted, and the processes of the last minute."""

PAY: Final = f"""{METER}
local left = {{requests = tonumber(ARGV[6]), tokens = tonumber(ARGV[7])}}
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
"""
"""Do what `QuotaMeter.settle` does."""

BUDGETS: Final = f"""{VALUE}
local time = redis.call('TIME')
local now = time[1] - {EPOCH} + time[2] / 1000000
local names, budgets = {{'attempts', 'tokens', 'money'}}, {{}}
for level = 1, #KEYS do
  local is_json, budget = pcall(cjson.decode, value_of(KEYS[level]))
  if not is_json or type(budget) ~= 'table' then budget = {{}} end
  for _, name in ipairs(names) do
    if type(budget[name]) ~= 'number' then budget[name] = 0 end
  end
  if type(budget.began) ~= 'number' then budget.began = now end
  local kept = {{}}
  for _, hold in ipairs(type(budget.holds) == 'table' and budget.holds or {{}}) do -- attempt, until when, and how much
    local is_ours = type(hold) == 'table' and type(hold[1]) == 'string' and type(hold[2]) == 'number'
    if is_ours and type(hold[3]) == 'number' and type(hold[4]) == 'number' then
      if hold[2] > now then
        kept[#kept + 1] = hold
      else -- nobody knows what became of it, so it has used all that it held
        budget.attempts, budget.tokens = budget.attempts + 1, budget.tokens + hold[3]
        budget.money = budget.money + hold[4]
      end
    end
  end
  budget.holds = kept
  budgets[level] = budget
end
local function drop(budget, attempt)
  for i = 1, #budget.holds do
    if budget.holds[i][1] == attempt then
      table.remove(budget.holds, i)
      return true
    end
  end
end
local attempt, answer = ARGV[1], {{0}}
local function save()
  for level = 1, #KEYS do
    local budget = budgets[level]
    redis.call('SET', KEYS[level], cjson.encode(budget), 'PX', 604800000)
    for _, name in ipairs(names) do answer[#answer + 1] = string.format('%.0f', budget[name]) end
    answer[#answer + 1] = tostring(now - budget.began)
  end
  return answer
end
"""

HOLD: Final = f"""{BUDGETS}
local lease, amounts = tonumber(ARGV[2]), {{attempts = 1, tokens = tonumber(ARGV[3]), money = tonumber(ARGV[4])}}
local fits = 1
for level, budget in ipairs(budgets) do
  drop(budget, attempt)
  for place, name in ipairs(names) do
    local most, all = tonumber(ARGV[4 + 3 * (level - 1) + place]), budget[name] + amounts[name]
    for _, hold in ipairs(budget.holds) do all = all + (place == 1 and 1 or hold[place + 1]) end
    if most and all > most then fits = 0 end
  end
end
if fits == 1 then
  for _, budget in ipairs(budgets) do
    budget.holds[#budget.holds + 1] = {{attempt, now + lease, amounts.tokens, amounts.money}}
  end
end
answer[1] = fits
return save()
"""
"""Hold an attempt on every level or on none; return whether, and what is paid of each level since it began."""

PAID: Final = f"""{BUDGETS}
for level, budget in ipairs(budgets) do
  if drop(budget, attempt) then
    for place, name in ipairs(names) do budget[name] = budget[name] + tonumber(ARGV[1 + place]) end
  end
end
return save()
"""
"""Give back what an attempt held, and count what it has paid; one that holds nothing was counted before."""
