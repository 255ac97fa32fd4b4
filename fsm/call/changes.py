def forget_seed(t,c): pass
add_nudge=seed=go_on=lower_reasoning=repair=fall_back=forget_seed
