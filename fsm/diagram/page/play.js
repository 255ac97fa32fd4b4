// The page on which you play the machine: choose what comes back, see which guard decides, take the step.
const play = (machine, usual, budget) => {
  const picture = viewsOf();
  let path = []; // each step: the row, the configurations before and after it, the facts that held and those carried on
  let at = machine.start();
  let carried = new Set(usual.at_first);
  let event = null;
  let facts = new Set();

  const isOver = () => machine.outcomes.includes(at.state);
  const isSpent = () => budget.attempts !== null && at.spent.attempts >= budget.attempts;
  const isAllowed = (name) => !(isSpent() && machine.rowsAt(at.state, name).some((row) => row.target === machine.hub));
  const left = () => {
    const most = machine.attemptsLeft(at);
    if (most === null || budget.attempts === null) return most;
    return Math.min(most, Math.max(0, budget.attempts - at.spent.attempts));
  };

  const choose = (name) => {
    event = name;
    facts = new Set([...carried, ...(usual.events[name]?.now ?? [])].filter((fact) => machine.mayHold(fact, at.spent)));
    byId("facts").replaceChildren(...factBoxes());
    byId("facts-box").hidden = !machine.factsOf(at.state, name).length;
    preview();
  };

  const factBoxes = () =>
    machine.factsOf(at.state, event).map((name) => {
      const box = el("input", { type: "checkbox", value: name, checked: facts.has(name) });
      box.addEventListener("change", () => {
        facts[box.checked ? "add" : "delete"](name);
        preview();
      });
      return el("label", { "data-fact": name }, box, el("code", {}, name));
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
      return el("label", { title: isAllowed(name) ? machine.events[name] : "the attempts of the budget are used up" }, input, el("span", {}, name));
    });

  const says = () => {
    const last = path.at(-1);
    const came = last ? `${rowText(last.row)} led to ${at.state}. ` : `The ${machine.name} begins in ${at.state}. `;
    if (isOver()) return `${came}The ${machine.name} is over after ${plural(at.spent.attempts, usual.unit)}.`;
    if (isSpent() && at.state !== machine.hub) return `${came}The budget has no attempt left.`;
    return came;
  };

  const worst = () => {
    if (isOver()) return "Nothing follows.";
    const most = left();
    if (most === null) return "Too many configurations follow to count them here; rungwise verify can.";
    const ended = most < machine.attemptsLeft(at) ? ", where the budget ends it" : "";
    const words = `At most ${plural(most, `more ${usual.unit}`)} can follow${ended}.`;
    return machine.exact ? words : `${words} This is an upper bound.`;
  };

  const pathItem = (step, place) =>
    el(
      "li",
      {},
      el("span", { class: "badge" }, String(place + 1)),
      el("code", {}, rowText(step.row)),
      chip(machine, step.row.target),
    );

  const update = () => {
    byId("state").replaceChildren(chip(machine, at.state));
    byId("says").textContent = says();
    byId("worst").textContent = worst();
    byId("choice").hidden = isOver();
    byId("events").replaceChildren(...eventChips());
    byId("counters").replaceChildren(...counterList(machine, at.spent, path.at(-1)?.before.spent));
    byId("budget").replaceChildren(budgetRow(`${usual.unit}s`, at.spent.attempts, budget.attempts, ""));
    byId("path").replaceChildren(...path.map(pathItem));
    byId("path").scrollTop = byId("path").scrollHeight;
    byId("no-path").hidden = path.length > 0;
    byId("undo").disabled = byId("restart").disabled = byId("copy").disabled = path.length === 0;
    byId("copied").textContent = "";
    picture.mark(path.map((step) => step.row));
    const first = byId("events").querySelector("input:enabled");
    if (isOver()) {
      picture.show({ state: at.state, row: path.at(-1)?.row });
    } else if (first) {
      first.checked = true;
      choose(first.value);
    }
  };

  const take = () => {
    const fired = machine.fire(at, event, facts);
    if (!fired) return;
    path.push({ row: fired.row, before: at, facts: [...facts], carried });
    const later = (usual.events[event]?.later ?? []).filter((name) => facts.has(name));
    carried = new Set([...carried, ...later]);
    at = fired.at;
    update();
    if (isOver()) byId("undo").focus();
  };

  const undo = () => {
    const last = path.pop();
    if (!last) return;
    ({ before: at, carried } = last);
    update();
  };

  const restart = () => {
    path = [];
    at = machine.start();
    carried = new Set(usual.at_first);
    update();
    byId("events").querySelector("input:enabled")?.focus();
  };

  const pathText = () =>
    path
      .map((step, place) => {
        const asked = machine.factsOf(step.row.source, step.row.event).filter((name) => step.facts.includes(name));
        const row = `${step.row.source} --${rowText(step.row)}--> ${step.row.target}`;
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
  byId("events").addEventListener("keydown", (press) => press.key === "Enter" && take());
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
  update();
  return { pathText, at: () => at, left };
};
