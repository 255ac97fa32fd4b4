// The page of one recorded run: select a step to see what decided it and what was left after it.
const explain = (machine, call, budget, inner) => {
  const picture = pictureOf(byId("picture"));
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

  // A step that made a call, or that came back with it, leads to the page of that call.
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
    if (!row) return el("p", { class: "faint" }, "A backend of the chain was passed over; no row was taken.");
    const at = { state: step.source, spent: spentAfter(place - 1) };
    const facts = new Set(step.facts);
    const decided = machine.decide(at, step.event, facts).row;
    const warning = `The journal says ${row.guard || "otherwise"} decided; with what it recorded, these guards do not agree.`;
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

  const budgetList = (used) => [
    budgetRow("attempts", used.attempts, budget.attempts, ""),
    budgetRow("time", used.seconds, budget.seconds, " s"),
    budgetRow("output tokens", used.output_tokens, budget.output_tokens, ""),
    budgetRow("money", used.money, budget.money, ""),
  ];

  const show = (place) => {
    const row = rowOf(place);
    const step = steps[place];
    const all = row ? machine.rowsAt(step.source, step.event) : [];
    picture.show({ row, tried: all.slice(0, all.indexOf(row)), state: step.target });
    byId("says").textContent = says(place);
    byId("guards").replaceChildren(guards(place));
    byId("details").replaceChildren(details(place), ...[contents(step.content), opener(place)].filter(Boolean));
    byId("counters").replaceChildren(...counterList(machine, spentAfter(place), spentAfter(place - 1)));
    byId("budget").replaceChildren(...budgetList(step.used));
    for (const bar of document.querySelectorAll("[data-step]"))
      bar.classList.toggle("now", Number(bar.dataset.step) === place + 1);
  };

  // Where the page of another call was looked at in the end, its step is selected.
  const frames = inner
    ? framesOf(inner, (number) => {
        if (call.inner[list.selected()] !== number) list.select(call.inner.lastIndexOf(number));
        byId("steps").focus();
      })
    : null;
  const list = listBox(byId("steps"), show);
  byId("steps").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    frames?.open(call.inner[list.selected()]);
  });
  for (const bar of document.querySelectorAll("[data-step]"))
    bar.addEventListener("click", () => list.select(Number(bar.dataset.step) - 1));
  byId("picture").addEventListener("click", (event) => {
    const taken = event.target.closest("[data-arc], [data-note]");
    const places = call.rows.map((_, place) => place).filter((place) => taken && isOn(taken.dataset, rowOf(place)));
    if (places.length) list.select(places.find((place) => place > list.selected()) ?? places[0]);
  });
  const isOn = (data, row) => row && (data.arc === `${row.source} ${row.target}` || data.note === noteOf(row));
  list.select(steps.length - 1);
  byId("steps").focus({ preventScroll: true });
  return { select: list.select, selected: list.selected };
};
