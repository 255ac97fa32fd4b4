-- What the scripts of budgets share: each level of a budget, and how they are saved.
local names, budgets, ends, WEEK = {'attempts', 'tokens', 'money'}, {}, {}, 604800
for level = 1, #KEYS do
  local budget = table_of(KEYS[level])
  for _, name in ipairs(names) do
    if type(budget[name]) ~= 'number' then budget[name] = 0 end
  end
  if type(budget.began) ~= 'number' then budget.began = now end
  local kept = {}
  for _, hold in ipairs(type(budget.holds) == 'table' and budget.holds or {}) do -- attempt, until when, and how much
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
  local ending = tonumber(ARGV[#ARGV - #KEYS + level]) -- of its period, if it is that of one
  ends[level] = ending and ending - EPOCH or now
end
local attempt, answer = ARGV[1], {0}
local function save()
  for level = 1, #KEYS do
    local budget = budgets[level]
    local kept = WEEK + math.max(ends[level] - now, 0)
    redis.call('SET', KEYS[level], cjson.encode(budget), 'PX', math.ceil(1000 * kept))
    for _, name in ipairs(names) do answer[#answer + 1] = string.format('%.0f', budget[name]) end
    answer[#answer + 1] = tostring(now - budget.began)
  end
  return answer
end
