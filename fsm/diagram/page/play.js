// The page on which you play the machine: choose what comes back, see which guard decides, take the step. A journal of a
// call, dropped on it, is played in the same way: what came back is proposed step by step, until you choose otherwise.
const play = (machine, usual, budget, around) => {
  const picture = viewsOf();
  // How a call is run, or any other machine, which has no journal here.
  const bare = {
    start: machine.start,
    take: (call, came) => {
      const fired = machine.fire(call, came.event, new Set(came.facts));
      return fired && { row: fired.row, facts: came.facts, call: fired.at };
    },
  };
  let run = around ? callOf(machine, around, around.journal) : bare;
  let path = []; // each step: the row, what came, the configuration before it, the facts that held and those carried on
  let ahead = []; // what comes next, unless you choose otherwise: the rest of a journal, and steps that were undone
  let opened = null; // the journal that was opened
  let at = run.start();
  let came = {}; // what comes back with the event
  let carried = new Set(usual.at_first);
  let event = null;
  let facts = new Set();

  const isOver = () => machine.outcomes.includes(at.state);
  const isSpent = () => (run.journal ? Boolean(at.short) : budget.attempts !== null && at.spent.attempts >= budget.attempts);
  const isAllowed = (name) => !(isSpent() && machine.rowsAt(at.state, name).some((row) => row.target === machine.hub));
  const left = () => {
    const most = machine.attemptsLeft(at);
    if (most === null || budget.attempts === null) return most;
    return Math.min(most, Math.max(0, budget.attempts - at.spent.attempts));
  };

  const repliesOf = (name) => (usual.events[name]?.replies ?? []).map((reply) => ({ ...reply, event: name }));

  // Choose an event, and what exactly came with it: by default the last of its examples.
  const choose = (name, exactly = repliesOf(name).at(-1) ?? { event: name }) => {
    event = name;
    came = exactly;
    const held = exactly.now ?? usual.events[name]?.now ?? [];
    const all = exactly.facts ?? [...carried, ...held].filter((fact) => machine.mayHold(fact, at.spent));
    facts = new Set(run.factsOf && !exactly.isChosen ? run.factsOf(at, { ...exactly, facts: all }) : all);
    const replies = repliesOf(name);
    byId("replies").replaceChildren(...replyChips(replies.length > 1 ? replies : []));
    byId("facts").replaceChildren(...factBoxes());
    byId("facts-box").hidden = !machine.factsOf(at.state, name).length;
    preview();
  };

  const factBoxes = () =>
    machine.factsOf(at.state, event).map((name) => {
      const box = el("input", { type: "checkbox", value: name, checked: facts.has(name) });
      box.addEventListener("change", () => {
        facts[box.checked ? "add" : "delete"](name);
        came = { ...came, isChosen: true };
        preview();
      });
      return el("label", { "data-fact": name }, box, el("code", {}, name));
    });

  const replyChips = (replies) =>
    replies.map((reply) => {
      const input = el("input", { type: "radio", name: "reply", checked: reply.says === came.says });
      input.addEventListener("change", () => choose(event, reply));
      return el("label", {}, input, el("span", {}, reply.says));
    });

  const preview = () => {
    const { row, tried } = machine.decide(at, event, facts);
    const matters = machine.factsThatMatter(at, event);
    for (const label of byId("facts").children) {
      const idle = !matters.has(label.dataset.fact);
      label.classList.toggle("idle", idle);
      label.title = idle ? "makes no difference here" : "";
    }
    byId("guards").replaceChildren(decisionList(machine, at, event, facts));
    byId("take").textContent = row ? `Take this step, to ${row.target}` : "No row takes this event";
    byId("take").disabled = !row;
    picture.show({ row, tried: tried.filter((each) => !each.holds).map((each) => each.row), state: at.state });
  };

  const eventChips = () =>
    machine.eventsAt(at.state).map((name) => {
      const input = el("input", { type: "radio", name: "event", value: name, disabled: !isAllowed(name) });
      input.addEventListener("change", () => choose(name));
      return el("label", { title: isAllowed(name) ? machine.events[name] : at.short ?? "the attempts of the budget are used up" }, input, el("span", {}, name));
    });

  const says = () => {
    const last = path.at(-1);
    const came = last ? `${rowText(last.row)} led to ${at.state}. ` : `The ${machine.name} begins in ${at.state}. `;
    if (isOver()) return `${came}The ${machine.name} is over after ${plural(at.spent.attempts, usual.unit)}.`;
    if (isSpent() && at.state !== machine.hub) return `${came}${at.short ? `Not sent: ${at.short}` : "The budget has no attempt left"}.`;
    return came;
  };

  const worst = () => {
    if (isOver()) return "Nothing follows.";
    const most = left();
    if (most === null) return "Too many configurations follow to count them here; rungwise verify can.";
    const ended = most < machine.attemptsLeft(at) ? "; then the budget ends it" : "";
    const words = `At most ${plural(most, `more ${usual.unit}`)} can follow${ended}.`;
    return machine.exact ? words : `${words} This is an upper bound.`;
  };

  const stepText = (step) => (step.row ? rowText(step.row) : "skipped a backend");
  const pathItem = (step, place) =>
    el(
      "li",
      {},
      el("span", { class: "badge" }, String(place + 1)),
      el("code", {}, stepText(step)),
      chip(machine, step.row?.target ?? step.before.state),
    );

  // What comes next of what is ahead: a reply while one is awaited, and in a rung what becomes of the rung.
  const proposedNext = () => {
    const events = machine.eventsAt(at.state);
    const going = at.short ? "ran_out" : "sent";
    while (ahead.length && !events.includes(ahead[0].event)) {
      if (events.includes("sent")) return { event: going, facts: [] };
      ahead.shift();
    }
    const isOpen = ahead.length && ["sent", "ran_out"].includes(ahead[0].event) && ahead[0].at === undefined;
    if (isOpen) ahead[0] = { ...ahead[0], event: going };
    return ahead[0] ?? null;
  };
  const budgetRows = () => {
    const attempts = budgetRow(`${usual.unit}s`, at.spent.attempts, budget.attempts, "");
    if (!run.journal) return [attempts];
    const tokens = at.steps.reduce((sum, step) => sum + (step.usage?.output_tokens ?? 0), 0);
    return [
      attempts,
      budgetRow("time", at.elapsed, run.budget.seconds, " s"),
      budgetRow("output tokens", tokens, budget.output_tokens, ""),
    ];
  };

  const update = () => {
    byId("state").replaceChildren(chip(machine, at.state));
    byId("says").textContent = says();
    byId("worst").textContent = worst();
    byId("choice").hidden = isOver();
    byId("events").replaceChildren(...eventChips());
    byId("counters").replaceChildren(...counterList(machine, at.spent, path.at(-1)?.before.spent));
    byId("budget").replaceChildren(...budgetRows());
    byId("path").replaceChildren(...path.map(pathItem));
    byId("path").scrollTop = byId("path").scrollHeight;
    byId("no-path").hidden = path.length > 0;
    byId("undo").disabled = byId("restart").disabled = byId("copy").disabled = path.length === 0;
    byId("copied").textContent = "";
    picture.mark(path.flatMap((step) => step.row ?? []));
    const next = isOver() ? null : proposedNext();
    const inputs = [...byId("events").querySelectorAll("input:enabled")];
    const first = inputs.find((input) => input.value === next?.event) ?? inputs[0];
    byId("rest").disabled = !next;
    if (isOver()) {
      picture.show({ state: at.state, row: path.at(-1)?.row });
    } else if (first) {
      first.checked = true;
      if (next && first.value === next.event) choose(next.event, next);
      else choose(first.value);
    }
  };

  // Take a step. What was ahead in its place is replaced; what follows it comes after as long as before, at other times.
  const step = () => {
    const isAhead = came === ahead[0];
    const given = isAhead ? came : { after: at.state === machine.hub ? 1 : 0, ...came, event, facts: [...facts] };
    const taken = run.take(at, given);
    if (!taken) return false;
    const isInstead = !isAhead && ahead.length > 0 && (at.state === machine.hub || ahead[0].event === "sent");
    if (isAhead || isInstead) ahead.shift();
    if (!isAhead) ahead = ahead.map(({ at: _, cap, input_tokens, ...rest }) => rest);
    path.push({ row: taken.row, came: given, before: at, facts: taken.facts, carried });
    const later = (came.later ?? usual.events[event]?.later ?? []).filter((name) => facts.has(name));
    carried = new Set([...carried, ...later]);
    at = taken.call;
    update();
    return true;
  };
  const take = () => {
    if (step() && isOver()) byId("undo").focus();
  };
  const playRest = () => {
    while (!isOver() && proposedNext() && step());
    byId("undo").focus();
  };

  const undo = () => {
    const last = path.pop();
    if (!last) return;
    ({ before: at, carried } = last);
    ahead.unshift(last.came);
    update();
  };

  const restart = () => {
    path = [];
    ahead = opened ? run.recorded() : [];
    at = run.start();
    carried = new Set(usual.at_first);
    update();
    byId("events").querySelector("input:enabled")?.focus();
  };

  // Open the journal of a call; its policy and chain are those that it ran with.
  const open = (text) => {
    try {
      const document = JSON.parse(text);
      const own = machineOf({ ...machine.data, limits: limitsOf(machine.data, document) });
      const recorded = callOf(own, around, text);
      const all = recorded.recorded().reduce((call, each) => recorded.take(call, each)?.call ?? call, recorded.start());
      const isSame = recorded.journal(all) === text;
      [machine, run, budget, opened] = [own, recorded, document.policy.budget, text];
      restart();
      const how = isSame ? "played here to the same bytes" : "played here a little differently: its tokens, money or turn had a say";
      byId("opened").textContent = `A journal of ${plural(document.steps.length, "step")}, ${how}. Take its steps, or choose otherwise.`;
    } catch (error) {
      byId("opened").textContent = `This is not a journal of a call that can be played here: ${error.message}.`;
    }
  };
  const journal = () => run.journal(at);
  const save = () => {
    const url = URL.createObjectURL(new Blob([journal()], { type: "application/json" }));
    el("a", { href: url, download: "journal.json" }).click();
    URL.revokeObjectURL(url);
  };

  const pathText = () =>
    path
      .map((step, place) => {
        const { source = step.before.state, event: came = "", target = source } = step.row ?? {};
        const asked = machine.factsOf(source, came).filter((name) => step.facts.includes(name));
        const row = `${source} --${stepText(step)}--> ${target}`;
        return `${String(place + 1).padStart(3)}. ${row}${asked.length ? ` with ${asked.join(", ")}` : ""}`;
      })
      .join("\n");

  // A page opened from a file may have no clipboard, so the text is also shown for copying by hand.
  const copy = async () => {
    const text = pathText();
    byId("text").value = text;
    byId("text").hidden = false;
    try {
      await navigator.clipboard.writeText(text);
      byId("copied").textContent = "Copied.";
    } catch {
      byId("text").select();
      byId("copied").textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy.";
    }
  };

  byId("take").addEventListener("click", take);
  for (const id of ["events", "replies"]) byId(id).addEventListener("keydown", (press) => press.key === "Enter" && take());
  byId("undo").addEventListener("click", undo);
  byId("restart").addEventListener("click", restart);
  byId("copy").addEventListener("click", copy);
  const chooseAt = (click) => {
    const name = click.target.closest("[data-event]")?.dataset.event;
    const input = [...byId("events").querySelectorAll("input:enabled")].find((each) => each.value === name);
    if (input && !isOver()) {
      input.checked = true;
      choose(name);
    }
  };
  for (const view of ["picture", "ladders"]) byId(view).addEventListener("click", chooseAt);
  byId("rest").addEventListener("click", playRest);
  byId("path").addEventListener("keydown", (press) => {
    const move = { ArrowRight: () => proposedNext() && step(), ArrowLeft: undo }[press.key];
    if (move && !press.ctrlKey && !press.metaKey && !press.altKey) move();
  });
  byId("journal-box").hidden = !run.journal;
  if (run.journal) {
    const read = async (files) => files.length && open(await files[0].text());
    byId("file").addEventListener("change", (chosen) => read(chosen.target.files));
    byId("save").addEventListener("click", save);
    addEventListener("dragover", (drag) => drag.preventDefault());
    addEventListener("drop", (drop) => {
      drop.preventDefault();
      read(drop.dataTransfer.files);
    });
  }
  update();
  return { pathText, at: () => at, left, open, journal, playRest };
};
