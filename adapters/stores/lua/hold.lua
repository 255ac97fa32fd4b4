-- Hold an attempt on every level or on none; return whether, and what is paid of each level since it began.
local lease, tokens, money = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local amounts = {attempts = 1, tokens = tokens, money = money}
local function ceiling(level, place) -- the most attempts, tokens or money of a level; none if it has no such limit
  return tonumber(ARGV[4 + 3 * (level - 1) + place])
end
local fits = 1
for level, budget in ipairs(budgets) do
  drop(budget.holds, attempt)
  -- It may be forgotten by now. So a clock that is so late finds nothing left of its period.
  if now > ends[level] + WEEK then budget.attempts = math.max(budget.attempts, ceiling(level, 1)) end
  for place, name in ipairs(names) do
    local most, all = ceiling(level, place), budget[name] + amounts[name]
    for _, hold in ipairs(budget.holds) do all = all + (place == 1 and 1 or hold[place + 1]) end
    if most and all > most then fits = 0 end
  end
end
if fits == 1 then
  for _, budget in ipairs(budgets) do
    budget.holds[#budget.holds + 1] = {attempt, now + lease, amounts.tokens, amounts.money}
  end
end
answer[1] = fits
return save()
