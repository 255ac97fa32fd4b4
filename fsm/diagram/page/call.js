// A call around its table: its clock, waits, output caps, chain and budget of attempts and seconds, and its journal, as
// fsm/call/run has them. What comes back is given, with the facts that only a reply can say; what follows from the
// policy, the chain and the counts is worked out here. A budget of tokens or money is not: it lowers caps, and may end
// a call earlier. Nothing changes a configuration; each step returns a new one.

// Writes what orjson writes: these are floats, which show it, and small ones have an exponent.
const FLOATS = new Set(["at", "wait", "first_token", "asked_wait", "draw", "cost"]);
const jsonOf = (value, name, indent) => {
  const inner = `${indent}  `;
  const block = (items, open, close) => (items.length ? `${open}${items.join(",")}${indent}${close}` : `${open}${close}`);
  if (Array.isArray(value)) return block(value.map((each) => inner + jsonOf(each, "", inner)), "[", "]");
  if (value && typeof value === "object")
    return block(Object.entries(value).map(([key, each]) => `${inner}${JSON.stringify(key)}: ${jsonOf(each, key, inner)}`), "{", "}");
  if (typeof value !== "number" || (Number.isInteger(value) && !FLOATS.has(name))) return JSON.stringify(value);
  if (value && (Math.abs(value) < 1e-5 || Math.abs(value) >= 1e16)) return value.toExponential();
  return Number.isInteger(value) ? `${value}.0` : `${value}`;
};

const general = (number) => String(Number(number.toPrecision(6))); // as Python's format `g` has it
const EVIDENCE = ["first_token", "usage", "stop_raw", "status", "reason", "code", "asked_wait"];
const WORKED_OUT = ["same_empty_again", "wait_fits", "switch_asked", "refusal_ends", "has_compactor", "has_next_backend"];

const callOf = (machine, words, text) => {
  const document = JSON.parse(text);
  const { policy, chain: links } = document;
  const { budget, waits, reserve } = policy;
  const begins = text.indexOf('\n  "steps": [');
  const plain = () => jsonOf(Object.fromEntries(Object.entries(document).filter(([name]) => !["steps", "outcome"].includes(name))), "", "\n").slice(0, -2);
  const head = begins < 0 ? `${plain()},` : text.slice(0, begins);
  const is = (set, name) => words[set].includes(name);
  const seconds = [budget.seconds, document.deadline].filter((each) => each != null).sort((a, b) => a - b)[0] ?? null;

  // The chain
  const problem = (index) => {
    const link = links[index];
    if (link.problem !== null) return link.problem;
    if (!link.stands_in) return null;
    return links[index - 1].problem === null ? `stands in for ${links[index - 1].name}` : null;
  };
  const isAlike = (one, other) => one.identities.some((each) => other.identities.some((also) => String(each) === String(also)));
  const nextOf = (index) => links.findIndex((link, place) => place > index && !isAlike(links[index], link) && problem(place) === null);
  const toCome = (index) => {
    const next = nextOf(index);
    return next < 0 ? [] : [next, ...toCome(next)];
  };
  const passedOver = (from, to) =>
    links.slice(from + 1, to).map((link, place) => [link, problem(from + 1 + place) ?? `same as ${links[from].name}`]);

  // The budget
  const isFirst = (call) => call.state === machine.data.start || call.state === "fallback";
  const reserved = (call) => {
    const attempts = budget.attempts - call.spent.attempts;
    const fallbacks = "fallbacks" in machine.limits ? machine.limits.fallbacks - call.spent.fallbacks : 0;
    const isOn = reserve.share > 0 || reserve.seconds !== null;
    const count = isOn ? Math.min(toCome(call.backend).length, Math.max(0, Math.min(fallbacks, attempts - 1))) : 0;
    if (!count || seconds === null) return { attempts: count, seconds: 0, endsAfter: null };
    const most = Math.min(reserve.seconds ?? seconds * reserve.share, policy.timeouts.total ?? Infinity);
    const even = Math.max(0, seconds - call.elapsed) / (count + 1);
    const each = Math.min(Math.max(0, Math.min(most, seconds / (count + 1))), even);
    return { attempts: count, seconds: each, endsAfter: seconds - count * each };
  };
  const isUsedUp = (call) => (call.spent.attempts >= budget.attempts ? `all ${budget.attempts} attempts of the budget are used` : null);
  const late = (call, wait) => {
    const at = call.elapsed + wait;
    if (budget.seconds !== null && at >= budget.seconds)
      return `the next attempt would begin after the ${general(budget.seconds)} s of the budget`;
    return seconds !== null && at >= seconds ? "the next attempt would begin after the deadline" : null;
  };
  const shortfall = (call, wait) => {
    const kept = call.reserved;
    const used = isUsedUp(call);
    if (used) return used;
    if (kept.attempts && !isFirst(call) && budget.attempts - call.spent.attempts <= kept.attempts)
      return "what is left of the attempts is kept for the backends to come";
    if (kept.seconds > 0 && call.elapsed + wait >= kept.endsAfter)
      return `${general(kept.seconds)} s of the budget are kept for each backend to come`;
    return late(call, wait);
  };
  // Propose what the rung sends: whether it can be afforded is settled now, and again if it goes out later than planned.
  const proposed = (call, wait) => {
    const here = isFirst(call) ? { ...call, reserved: reserved(call) } : call;
    return { ...here, wait, until: here.elapsed + wait, short: shortfall(here, wait) };
  };

  // The facts
  const kindsOf = ({ event, reason, asked_wait: asked }, adds) => {
    if (words.switch_events.empty.includes(event)) return ["empty"];
    const isBroken = words.switch_events.broken_stream.includes(event) && !adds;
    const isUntimed = reason === "rate_limit" && words.switch_events.rate_limit_without_wait.includes(event) && asked == null;
    return [reason, isBroken && "broken_stream", isUntimed && "rate_limit_without_wait"].filter(Boolean);
  };
  const counted = (call, came, said) => {
    const failures = { ...call.failures };
    const adds = said.has("added_text");
    if (adds) delete failures[`${call.backend} broken_stream`];
    const kinds = kindsOf(came, adds).map((kind) => [`${call.backend} ${kind}`, policy.switch_after[kind]]);
    if (!said.has("connection_was_stale")) for (const [key] of kinds) failures[key] = (failures[key] ?? 0) + 1;
    const isOneTooMany = kinds.some(([key, most]) => most != null && (failures[key] ?? 0) >= most);
    return { failures, isOneTooMany };
  };
  const fits = (call, asked) =>
    asked == null ||
    ((call.reserved.endsAfter === null || call.elapsed + asked < call.reserved.endsAfter) &&
      asked <= waits.longest_asked &&
      !late(call, asked));
  const sameEmpty = (was, now) =>
    was?.event === "came_empty" && now.event === "came_empty" && was.stop_raw === now.stop_raw && !was.usage?.output_tokens && !now.usage?.output_tokens;

  const isGuarded = (event) => machine.rows.some((row) => row.event === event && row.guard);
  const ordered = (facts) => words.facts.filter((name) => facts.has(name));
  // The facts that hold when something comes back, those that the reply itself says among them.
  const factsOf = (call, came) => {
    const said = new Set(came.facts ?? []);
    if (!isGuarded(came.event)) return said.has("overran") ? ["overran"] : [];
    if (came.event === "ran_out") return call.short && canPayAnother(call) ? ["has_next_backend", "reserve_left"] : [];
    const hasNext = nextOf(call.backend) >= 0;
    if (came.event === "found_open") return ["has_text", "has_next_backend"].filter((name) => (name === "has_text" ? said.has(name) : hasNext));
    const found = {
      same_empty_again: policy.skip_identical_empties && sameEmpty(call.last, came),
      wait_fits: !is("may_ask", came.event) || fits(call, came.asked_wait),
      switch_asked: counted(call, came, said).isOneTooMany || (call.isProbe && is("failed_probe", came.event)),
      refusal_ends: policy.after_refusal === "end",
      has_compactor: document.has_compactor,
      has_next_backend: hasNext,
    };
    for (const [name, holds] of Object.entries(found)) said[holds ? "add" : "delete"](name);
    return ordered(said);
  };
  const canPayAnother = (call) => !isUsedUp(call) && nextOf(call.backend) >= 0 && !late(call, 0);

  // What a rung waits and sends
  const waitOf = (call, row, came) => {
    const series = words.waits[row.target];
    if (came.reason != null && came.asked_wait != null && is("may_ask", came.event) && !is("ignores_wait", row.target)) return { wait: came.asked_wait };
    if (!series) return { wait: 0 };
    const isReask = series === "reask" || is("broken", came.event);
    const cap = came.reason === "overloaded" ? waits.overload_cap : waits.retry_cap;
    const [base, most] = isReask ? [waits.reask_base, waits.reask_cap] : [waits.retry_base, cap];
    const count = Math.max(call.spent[machine.effects[row.effect].spends], 1);
    const delay = Math.min(base * 2 ** (count - 1), most);
    const draw = came.draw ?? 0.5;
    return { wait: delay + draw * waits.jitter * delay, draw };
  };
  const capOf = (call) => {
    const asked = document.max_tokens || links[call.backend].max_tokens;
    const raises = words.raising.reduce((sum, name) => sum + (call.spent[name] ?? 0), 0);
    if (!raises) return asked;
    return Math.max(Math.min((asked ?? policy.base_cap) * (raises + 1), policy.largest_cap), asked ?? 0);
  };

  // The steps
  const stepOf = (call, row, more) => {
    const { attempts, ...spent } = call.spent;
    const { event, source, guard, effect, target } = row;
    const all = { number: call.steps.length + 1, at: call.elapsed, event, source, guard, effect, target };
    Object.assign(all, { backend: links[call.backend].name, wait: 0, cap: null, input_tokens: null, first_token: null }, more);
    const order = ["number", "at", "event", "source", "guard", "effect", "target", "backend", "wait", "cap", "input_tokens", ...EVIDENCE, "draw", "facts"];
    const isDefault = (name) => all[name] == null || (name === "wait" && !all.wait) || (name === "facts" && !all.facts.length);
    const step = Object.fromEntries(order.filter((name) => !isDefault(name)).map((name) => [name, all[name]]));
    step.spent = spent;
    if (attempts) step.attempts = attempts;
    if (all.note != null) step.note = all.note;
    if (all.content != null) step.content = all.content;
    return { ...call, steps: [...call.steps, step] };
  };
  const skip = (call, passed, more = {}) =>
    passed.reduce((at, [link, note]) => stepOf(at, { event: "skipped", source: call.state, target: call.state }, { ...more, note, backend: link.name }), call);
  const moved = (call, to) => ({ ...skip(call, passedOver(call.backend, to)), backend: to, isProbe: false });

  const start = () => {
    const first = links.findIndex((_, index) => problem(index) === null);
    const call = { ...machine.start(), elapsed: 0, backend: 0, failures: {}, last: null, steps: [], wait: 0, isProbe: false };
    const skipped = links.slice(0, first).map((link, index) => [link, problem(index)]);
    return proposed({ ...skip(call, skipped), backend: first }, 0);
  };

  const sent = (call, row, came) => {
    const { input_tokens, first_token, note = null } = came;
    const isProbe = (note ?? "").split("; ").includes(words.probe);
    return stepOf({ ...call, isProbe }, row, { cap: came.cap ?? capOf(call), input_tokens, first_token, note });
  };
  const ended = (call, row, more) => {
    const isLast = is("last_resorts", row.target) && nextOf(call.backend) < 0;
    const at = isLast ? { ...skip({ ...call, state: row.source }, passedOver(call.backend, links.length)), state: row.target } : call;
    return { ...stepOf(at, row, more), outcome: row.target };
  };
  // Take what happens next: a reply, or in a rung `sent`, `ran_out`, `found_open` or `cancelled`. Returns null if the
  // table has no row for it.
  const take = (call, came) => {
    const isReply = call.state === machine.hub;
    const isSend = !isReply && !came.isChosen && ["sent", "ran_out"].includes(came.event);
    const planned = call.elapsed + (isReply || call.short ? 0 : call.wait);
    const here = { ...call, elapsed: Math.max(call.elapsed, came.at ?? planned + (came.after ?? 0)) };
    if (!isReply && here.elapsed > call.until) here.short = shortfall(here, 0);
    const now = isSend ? { ...came, event: here.short ? "ran_out" : "sent" } : came;
    const { event } = now;
    const facts = came.isChosen ? ordered(new Set(came.facts)) : factsOf(here, now);
    const why = event === "ran_out" ? here.short : came.note;
    const isPassed = event === "found_open" || (event === "ran_out" && here.short && facts.length);
    if (here.state === "fallback" && isPassed && nextOf(here.backend) >= 0) {
      const skipped = skip(here, [[links[here.backend], why]], event === "ran_out" ? { facts } : {});
      const next = proposed(moved(skipped, nextOf(here.backend)), 0);
      return isSend ? take(next, came) : { row: null, facts, call: next };
    }
    const fired = machine.fire(here, event, new Set(facts));
    if (!fired) return null;
    const { row } = fired;
    if (event === "sent") return { row, facts, call: sent({ ...here, ...fired.at }, row, came) };
    const isObserved = isReply || event === "cancelled";
    const names = isObserved ? [...EVIDENCE, "note", "content"] : ["input_tokens"];
    const more = { facts, note: why, ...Object.fromEntries(names.map((name) => [name, came[name]])) };
    const seen = isReply ? { failures: counted(here, now, new Set(facts)).failures, last: now } : {};
    const at = { ...here, ...fired.at, ...seen };
    if (machine.outcomes.includes(row.target)) return { row, facts, call: ended(at, row, more) };
    const waited = isReply ? waitOf(at, row, now) : { wait: 0 };
    const led = stepOf(at, row, { ...more, ...waited });
    return { row, facts, call: proposed(row.target === "fallback" ? moved(led, nextOf(led.backend)) : led, waited.wait) };
  };

  // What came back in the journal, step by step: none of what the call itself decided.
  const recorded = () => {
    const isLeft = (step) => words.left.some((begin) => (step.note ?? "").startsWith(begin));
    const steps = document.steps.map((step, place) => ({ step, before: document.steps[place - 1] }));
    return steps
      .filter(({ step }) => step.event !== "skipped" || isLeft(step))
      .map(({ step, before }) => ({
        ...Object.fromEntries([...EVIDENCE, "at", "draw", "note", "content", "input_tokens", "cap"].filter((name) => name in step).map((name) => [name, step[name]])),
        event: step.event === "skipped" ? "found_open" : step.event,
        after: before ? Math.max(0, step.at - before.at - (before.wait ?? 0)) : 0,
        facts: (step.facts ?? []).filter((name) => !WORKED_OUT.includes(name)),
      }));
  };
  const journal = (call) =>
    `${head}\n  "steps": ${jsonOf(call.steps, "", "\n  ")},\n  "outcome": ${JSON.stringify(call.outcome ?? null)}\n}`;

  return { start, take, factsOf, recorded, journal, budget: { ...budget, seconds } };
};

// The limits of a recorded call: those of its policy, as far as its chain allows.
const limitsOf = (data, { policy, chain, counters }) => {
  if (String(counters) !== String(data.counters)) throw new RangeError("its counters are not those of this table");
  const keys = Math.max(...chain.map((link) => link.keys ?? 1));
  const most = { fallbacks: chain.length - 1, rotations: keys - 1, ...(chain.some((link) => link.background) ? {} : { reattaches: 0 }) };
  const limit = (name) => Math.min(policy.limits[name] ?? Infinity, most[name] ?? (policy.limits[name] === null ? chain.length - 1 : Infinity));
  return Object.fromEntries(counters.map((name) => [name, limit(name)]));
};
