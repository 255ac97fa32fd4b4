-- Give back what an attempt held, and count what it has paid; one that holds nothing was counted before.
for level, budget in ipairs(budgets) do
  if drop(budget.holds, attempt) then
    for place, name in ipairs(names) do budget[name] = budget[name] + tonumber(ARGV[1 + place]) end
  end
end
return save()
