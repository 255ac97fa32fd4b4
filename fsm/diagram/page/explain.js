// The page of a recorded run: plays it attempt by attempt, and shows what decided each step and what remained.
const PACE = 1200; // milliseconds per attempt while the page plays

const explain = (machine, call, budget, inner, first) => {
  const views = viewsOf();
  const steps = call.steps;
  const nothing = machine.start().spent;
  const rowOf = (place) => (call.rows[place] === null ? null : machine.rows[call.rows[place]]);
  const spentAfter = (place) => (place < 0 ? nothing : { ...nothing, ...steps[place].spent });

  const line = (name, value) =>
    value === null || value === undefined || value === "" ? [] : [el("dt", {}, name), el("dd", {}, value)];

  const waitWords = (step) => {
    if (!step.wait) return null;
    if (step.asked_wait !== null) return `${short(step.wait)} s, as the provider asked`;
    const drawn = step.draw === null ? "" : `, jitter drawn ${short(step.draw)}`;
    return `${short(step.wait)} s${drawn}`;
  };

  const usageWords = (usage) =>
    Object.entries(usage)
      .map(([name, count]) => (count === true ? name : `${count} ${name.replace("_tokens", "").replaceAll("_", " ")}`))
      .join(", ");

  const details = (place) => {
    const step = steps[place];
    const row = rowOf(place);
    const facts = step.facts.map((name) => el("code", { class: "fact" }, name));
    return el(
      "dl",
      {},
      ...line("at", `${short(step.at)} s`),
      ...line("backend", step.backend),
      ...line("effect", row && row.effect ? el("code", {}, row.effect) : null),
      ...line("wait", waitWords(step)),
      ...line("asked to wait", step.asked_wait === null ? null : `${short(step.asked_wait)} s`),
      ...line("output cap", step.cap === null ? null : `${step.cap} tokens`),
      ...line("tokens", usageWords(step.usage)),
      ...line("finish", step.stop_raw),
      ...line("status", step.status === null ? null : `HTTP ${step.status}`),
      ...line("reason", step.reason),
      ...line("code", step.code),
      ...line("facts", facts.length ? el("span", { class: "facts" }, ...facts) : null),
      ...line("note", step.note),
    );
  };

  const contents = (content) =>
    content === null
      ? null
      : el("details", {}, el("summary", {}, "contents"), el("pre", {}, JSON.stringify(content, null, 2)));

  // A step that made a call, or that the call led to, opens the page of that call.
  const opener = (place) => {
    const number = call.inner[place];
    if (!frames?.has(number)) return null;
    const button = el("button", { type: "button", class: "open" }, `Open call ${number}`);
    button.addEventListener("click", () => frames.open(number));
    return el("p", { class: "buttons" }, button);
  };

  const guards = (place) => {
    const step = steps[place];
    const row = rowOf(place);
    if (!row) return el("p", { class: "faint" }, "A backend was skipped; no row was taken.");
    const at = { state: step.source, spent: spentAfter(place - 1) };
    const facts = new Set(step.facts);
    const decided = machine.decide(at, step.event, facts).row;
    const warning = `The journal says that ${row.guard || "otherwise"} decided, but the recorded facts do not agree.`;
    return el(
      "div",
      {},
      decisionList(machine, at, step.event, facts),
      decided === row ? null : el("p", { class: "warning", role: "alert" }, warning),
    );
  };

  const says = (place) => {
    const step = steps[place];
    const row = rowOf(place);
    const wait = step.wait ? `, after a wait of ${short(step.wait)} s` : "";
    const said = row && machine.events[row.event] !== row.event ? ` (${machine.events[row.event]})` : "";
    const words = row ? `${rowText(row)}${said} leads to ${row.target}${wait}` : `skipped ${step.backend}`;
    return `Step ${place + 1} of ${steps.length}: ${words}`;
  };

  // The present attempt, for readers who do not know the table.
  const tells = (place, at) => {
    const row = rowOf(place);
    const which = at === null ? "" : `${at + 1} of ${lines.length}: `;
    const wait = steps[place].wait ? ` after a wait of ${short(steps[place].wait)} s` : "";
    const words = row ? machine.events[row.event] : `${steps[place].backend} was skipped`;
    return [`${which}${words}`, ...(row ? [", which leads to ", chip(machine, row.target), wait] : [])];
  };

  const budgetList = (used) => [
    budgetRow("attempts", used.attempts, budget.attempts, ""),
    budgetRow("time", used.seconds, budget.seconds, " s"),
    budgetRow("output tokens", used.output_tokens, budget.output_tokens, ""),
    budgetRow("money", used.money, budget.money, ""),
  ];

  const lines = [...document.querySelectorAll("#attempts > li > .line")];
  const lineOf = (place) => {
    const at = lines.findIndex(({ dataset }) => dataset.first <= place + 1 && place + 1 <= dataset.last);
    return at < 0 ? null : at;
  };

  const markLine = (at) => {
    lines.forEach((each, place) => {
      if (place === at) each.setAttribute("aria-current", "step");
      else each.removeAttribute("aria-current");
      each.tabIndex = place === (at ?? 0) ? 0 : -1;
    });
    byId("to-first").disabled = byId("back").disabled = !at;
    byId("forward").disabled = byId("to-last").disabled = at === null || at >= lines.length - 1;
  };

  const show = (place) => {
    const row = rowOf(place);
    const step = steps[place];
    const all = row ? machine.rowsAt(step.source, step.event) : [];
    views.show({ row, tried: all.slice(0, all.indexOf(row)), state: step.target });
    byId("says").textContent = says(place);
    byId("told").replaceChildren(...tells(place, lineOf(place)));
    byId("guards").replaceChildren(guards(place));
    byId("details").replaceChildren(details(place), ...[contents(step.content), opener(place)].filter(Boolean));
    byId("counters").replaceChildren(...counterList(machine, spentAfter(place), spentAfter(place - 1)));
    byId("budget").replaceChildren(...budgetList(step.used));
    markLine(lineOf(place));
  };

  // If the reader moved on to the page of another call, select its step.
  const frames = inner
    ? framesOf(inner, (number) => {
        if (call.inner[list.selected()] !== number) list.select(call.inner.lastIndexOf(number));
        lines[lineOf(list.selected()) ?? 0]?.focus();
      })
    : null;
  const list = listBox(byId("steps"), show);
  byId("steps").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    frames?.open(call.inner[list.selected()]);
  });

  const present = () => lineOf(list.selected()) ?? -1;
  const goTo = (at) => {
    if (!lines.length) return;
    const target = lines[Math.max(0, Math.min(lines.length - 1, at))];
    const hadFocus = document.activeElement?.matches("#attempts > li > .line");
    list.select(Number(target.dataset.step) - 1);
    if (hadFocus) target.focus({ preventScroll: true });
    keepInSight(target);
  };

  // While the page plays, the present line stays in the window, without smooth scrolling.
  const keepInSight = (target) => {
    const box = target.getBoundingClientRect();
    const top = document.querySelector(".player").getBoundingClientRect().bottom;
    if (box.top < Math.max(0, top)) scrollBy(0, box.top - Math.max(0, top) - 8);
    else if (box.bottom > innerHeight) scrollBy(0, box.bottom - innerHeight + 8);
  };

  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "Play";
  };
  const play = () => {
    if (timer !== null) return stop();
    if (present() >= lines.length - 1) goTo(0);
    if (lines.length < 2) return;
    byId("play").textContent = "Stop";
    timer = setInterval(() => {
      goTo(present() + 1);
      if (present() >= lines.length - 1) stop();
    }, PACE);
  };
  const by = (move) => () => {
    stop();
    move();
  };
  const moves = {
    Home: by(() => goTo(0)),
    ArrowLeft: by(() => goTo(present() - 1)),
    ArrowRight: by(() => goTo(present() + 1)),
    End: by(() => goTo(lines.length - 1)),
    " ": play,
  };
  const buttons = { "to-first": "Home", back: "ArrowLeft", play: " ", forward: "ArrowRight", "to-last": "End" };
  for (const [id, key] of Object.entries(buttons)) byId(id).addEventListener("click", () => moves[key]());
  for (const each of lines) each.addEventListener("click", by(() => goTo(lines.indexOf(each))));
  for (const each of document.querySelectorAll(".inner.line"))
    each.addEventListener("click", () => frames?.open(Number(each.dataset.call), Number(each.dataset.attempt)));
  byId("attempts").addEventListener("keydown", (event) => {
    const at = lines.indexOf(event.target);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    by(() => goTo(at + step))();
  });
  // The keys of the player work wherever nothing else handles them.
  document.addEventListener("keydown", (event) => {
    const taken = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
    if (taken || !moves[event.key] || event.target.closest("#steps, #picture, input, textarea, dialog")) return;
    const isButton = event.target.closest("button, summary");
    if (event.key === " " && isButton && !lines.includes(isButton)) return;
    event.preventDefault();
    moves[event.key]();
  });

  byId("picture").addEventListener("click", (event) => {
    const taken = event.target.closest("[data-arc], [data-note]");
    const places = call.rows.map((_, place) => place).filter((place) => taken && isOn(taken.dataset, rowOf(place)));
    if (places.length) list.select(places.find((place) => place > list.selected()) ?? places[0]);
  });
  const isOn = (data, row) => row && (data.arc === `${row.source} ${row.target}` || data.note === noteOf(row));
  views.markLadders(machine.rows.filter((_, place) => call.rows.includes(place)));
  list.select(lines.length ? Number(lines[Math.min(first ?? 1, lines.length) - 1].dataset.step) - 1 : 0);
  (lines[lineOf(list.selected())] ?? byId("steps")).focus({ preventScroll: true });
  return { select: list.select, selected: list.selected, goTo, present, isPlaying: () => timer !== null };
};
