// Runs the machine of a table from its data. A configuration is a state with what is spent of each counter and the
// number of attempts; nothing here knows a rung, a guard or a counter by name.
const machineOf = (data) => {
  const rowsAt = (state, event) => data.rows.filter((row) => row.source === state && row.event === event);
  const eventsAt = (state) => [...new Set(data.rows.filter((row) => row.source === state).map((row) => row.event))];
  const start = () => ({
    state: data.start,
    spent: Object.fromEntries([...data.counters, "attempts"].map((name) => [name, 0])),
  });

  const holds = (name, facts) => {
    const derived = data.facts[name];
    if (!derived) return facts.has(name);
    return derived.any_holds.some((each) => holds(each, facts)) || derived.any_lacks.some((each) => !holds(each, facts));
  };
  // The facts that decide a fact: itself, or those that it follows from.
  const foundFacts = (name) => {
    const derived = data.facts[name];
    return derived ? [...derived.any_holds, ...derived.any_lacks].flatMap(foundFacts) : [name];
  };
  const hasLeft = (counter, spent) => spent[counter] < data.limits[counter];
  // Whether a fact can hold at all: some mean that a unit of a counter is left.
  const mayHold = (name, spent) => !(name in data.lasts) || hasLeft(data.lasts[name], spent);

  // What a guard checks, in order, until it fails: the facts that must hold or must not, then a unit of its counter.
  const asked = (guard, spent, facts) => {
    const questions = [
      ...guard.holds.map((fact) => ({ facts: foundFacts(fact), holds: holds(fact, facts) })),
      ...guard.lacks.map((fact) => ({ facts: foundFacts(fact), holds: !holds(fact, facts) })),
      ...(guard.counter ? [{ facts: [], counter: guard.counter, holds: hasLeft(guard.counter, spent) }] : []),
    ];
    const failed = questions.findIndex((each) => !each.holds);
    return failed < 0 ? questions : questions.slice(0, failed + 1);
  };

  // Try the rows of an event in their order, up to the one that decides.
  const decide = (at, event, facts) => {
    const tried = [];
    for (const row of rowsAt(at.state, event)) {
      const because = row.guard ? asked(data.guards[row.guard], at.spent, facts) : [];
      tried.push({ row, holds: because.every((each) => each.holds), because });
      if (tried.at(-1).holds) return { row, tried };
    }
    return { row: null, tried };
  };

  const after = (at, row, facts) => {
    const spent = { ...at.spent };
    if (row.target === data.hub) spent.attempts += 1;
    const effect = row.effect ? data.effects[row.effect] : { spends: null, refills: [], refills_on: null };
    if (effect.spends) spent[effect.spends] += 1;
    if (!effect.refills_on || holds(effect.refills_on, facts)) for (const name of effect.refills) spent[name] = 0;
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
      const guard = row.guard ? data.guards[row.guard] : { holds: [], lacks: [] };
      const on = row.effect && data.effects[row.effect].refills_on;
      for (const name of [...guard.holds, ...guard.lacks, ...(on ? [on] : [])]) {
        for (const each of foundFacts(name)) names.add(each);
      }
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

  return { ...data, data, rowsAt, eventsAt, start, decide, fire, mayHold, factsOf, factsThatMatter, attemptsLeft: worstOf(data) };
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

  // Null if there are too many configurations.
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
