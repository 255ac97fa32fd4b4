// The machine of the table, run from its data. A configuration is a state with what is spent of each counter and the
// number of attempts; nothing here knows a rung, a guard or a counter by name.
const machineOf = (data) => {
  const rowsAt = (state, event) => data.rows.filter((row) => row.source === state && row.event === event);
  const eventsAt = (state) => [...new Set(data.rows.filter((row) => row.source === state).map((row) => row.event))];
  const start = () => ({
    state: data.start,
    spent: Object.fromEntries([...data.counters, "attempts"].map((name) => [name, 0])),
  });

  const valueOf = (name, spent) => (name.startsWith(".") ? data.limits[name.slice(1)] : spent[name]);

  const isTrue = (condition, spent, facts) => {
    if (condition.fact !== undefined) return facts.has(condition.fact) === condition.is;
    let sum = 0;
    for (const [name, times] of Object.entries(condition.sum)) sum += times * valueOf(name, spent);
    return (condition.least === null || sum >= condition.least) && (condition.most === null || sum <= condition.most);
  };

  // Exactly one path of a guard or an effect is true in any configuration; none only where a journal says more was
  // spent than there is.
  const NO_PATH = { if: [], holds: false, takes: [], refills: [] };
  const pathOf = (paths, spent, facts) =>
    paths.find((path) => path.if.every((each) => isTrue(each, spent, facts))) ?? NO_PATH;

  // Try the rows of an event in their order, up to the one that decides.
  const decide = (at, event, facts) => {
    const tried = [];
    for (const row of rowsAt(at.state, event)) {
      const path = row.test ? pathOf(data.guards[row.test], at.spent, facts) : { if: [], holds: true };
      tried.push({ row, holds: path.holds, because: path.if });
      if (path.holds) return { row, tried };
    }
    return { row: null, tried };
  };

  const after = (at, row, facts) => {
    const change = row.change ? pathOf(data.effects[row.change], at.spent, facts) : { takes: [], refills: [] };
    const spent = { ...at.spent };
    for (const name of change.takes) spent[name] += 1;
    for (const name of change.refills) spent[name] = 0;
    return { state: row.target, spent };
  };

  // Fire an event: the row that was taken and the configuration after it, or null if no row takes it.
  const fire = (at, event, facts) => {
    const { row } = decide(at, event, facts);
    return row && { row, at: after(at, row, facts) };
  };

  // The facts that the guards and effects of an event ask about, in the order in which they ask.
  const factsOf = (state, event) => {
    const names = new Set();
    for (const row of rowsAt(state, event)) {
      const paths = [...(row.test ? data.guards[row.test] : []), ...(row.change ? data.effects[row.change] : [])];
      for (const path of paths) for (const each of path.if) if (each.fact !== undefined) names.add(each.fact);
    }
    return [...names];
  };

  // The facts that can make a difference here, with the counters as they are.
  const factsThatMatter = (at, event) => {
    const names = factsOf(at.state, event);
    if (names.length > MOST_FACTS) return new Set(names);
    const results = new Map();
    for (let bits = 0; bits < 2 ** names.length; bits += 1) {
      const facts = new Set(names.filter((_, place) => bits & (1 << place)));
      const fired = fire(at, event, facts);
      results.set(bits, fired && JSON.stringify([data.rows.indexOf(fired.row), fired.at]));
    }
    const matters = (place) => [...results].some(([bits, result]) => result !== results.get(bits ^ (1 << place)));
    return new Set(names.filter((_, place) => matters(place)));
  };

  return { ...data, rowsAt, eventsAt, start, decide, fire, factsOf, factsThatMatter, attemptsLeft: worstOf(data) };
};

const MOST_FACTS = 10;
const MOST_STATES = 200000;

// The most attempts that can follow, by the recurrence of the certificate: counters whose rows refill others are
// followed one unit at a time; all others are spent as late as possible, just before a refill or at the end.
const worstOf = (data) => {
  const names = data.counters;
  const limits = names.map((name) => data.limits[name]);
  const moves = data.moves.map((move) => ({
    takes: names.indexOf(move.takes),
    refills: move.refills.map((name) => names.indexOf(name)),
  }));
  const branching = [...new Map(moves.map((move) => [JSON.stringify(move), move])).values()].filter((move) =>
    moves.some((other) => other.takes === move.takes && other.refills.length),
  );
  const tracked = new Set(branching.map((move) => move.takes));
  const taken = new Set(moves.map((move) => move.takes));
  const leaves = names.map((_, place) => place).filter((place) => taken.has(place) && !tracked.has(place));
  const sum = (left, places) => places.reduce((total, place) => total + left[place], 0);
  const known = new Map();

  const most = (left) => {
    const key = left.join();
    if (known.has(key)) return known.get(key);
    if (known.size > MOST_STATES) throw new RangeError("too many configurations");
    let best = sum(left, leaves);
    for (const move of branching) {
      if (left[move.takes] === 0) continue;
      const next = [...left];
      next[move.takes] -= 1;
      const first = leaves.filter((place) => move.refills.includes(place));
      for (const place of move.refills) next[place] = limits[place];
      best = Math.max(best, sum(left, first) + 1 + most(next));
    }
    known.set(key, best);
    return best;
  };

  // Null where there are too many configurations to look at.
  return (at) => {
    if (data.outcomes.includes(at.state)) return 0;
    const left = names.map((name, place) => Math.max(0, limits[place] - at.spent[name]));
    try {
      return most(left) + (at.state === data.hub ? 0 : 1);
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
  };
};
