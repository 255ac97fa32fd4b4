// What both pages show: decision lists, counters, and the picture with the present step. Text from outside is only set
// as text, never as HTML.
const el = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
};

const byId = (id) => document.getElementById(id);
const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const short = (number) => Number(number.toPrecision(4)).toString();
const rowText = (row) => `${row.event}${row.guard ? ` [${row.guard}]` : ""}`;
// As the macro `chip` of the templates writes it: outcomes also have a sign.
const SIGNS = { answer: "✓", lesser: "◐", error: "✕" };
const chip = (machine, state) => {
  const kind = machine.kinds[state];
  const sign = SIGNS[kind] ? el("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `) : null;
  return el("span", { class: `chip ${kind}${machine.outcomes.includes(state) ? " end" : ""}` }, sign, state);
};

// What a guard checked, in order.
const because = (machine, questions, spent, facts) =>
  questions.flatMap((question) =>
    question.counter
      ? [`${question.counter}: ${spent[question.counter]} of ${machine.limits[question.counter]} spent`]
      : question.facts.map((name) => `${name}: ${facts.has(name) ? "yes" : "no"}`),
  );

const VERDICTS = { decides: ["✓", "decides"], false: ["✗", "false"], untried: ["·", "not tried"] };

// The rows of an event in order: those whose guards were false, the one that decided, those never tried.
const decisionList = (machine, at, event, facts) => {
  const { tried } = machine.decide(at, event, facts);
  const rows = machine.rowsAt(at.state, event);
  const items = rows.map((row, place) => {
    const one = tried[place];
    const verdict = one ? (one.holds ? "decides" : "false") : "untried";
    const [sign, words] = VERDICTS[verdict];
    const found = one ? because(machine, one.because, at.spent, facts).join(" · ") : "";
    const guard = row.guard || (rows.length > 1 ? "otherwise" : "always");
    return el(
      "li",
      { class: verdict },
      el("span", { class: "sign", "aria-hidden": "true" }, sign),
      el(
        "span",
        { class: "guard", title: row.guard ? machine.says[row.guard] : null },
        el("code", {}, guard),
        el("span", { class: "hidden" }, ` ${words}, leads to `),
      ),
      chip(machine, row.target),
      found ? el("small", {}, found) : null,
    );
  });
  return el("ol", { class: "decisions" }, ...items);
};

const MOST_PIPS = 10;

// What remains of each counter, and what the present step changed.
const counterList = (machine, spent, before) =>
  machine.counters.map((name) => {
    const limit = machine.limits[name];
    const left = Math.max(0, limit - spent[name]);
    const change = before ? before[name] - spent[name] : 0;
    const pips = Array.from({ length: limit }, (_, place) => el("i", { class: place < left ? "left" : "spent" }));
    return el(
      "li",
      { class: change < 0 ? "taken" : change > 0 ? "refilled" : limit ? "" : "off" },
      el("span", { class: "name" }, name),
      limit === 0 || limit > MOST_PIPS ? meter(left, limit) : el("span", { class: "pips", "aria-hidden": "true" }, ...pips),
      el("span", { class: "number" }, limit ? `${left}/${limit}` : "off"),
      change ? el("span", { class: "change" }, `${change > 0 ? "+" : "−"}${Math.abs(change)}`) : null,
    );
  });

const meter = (left, limit) => {
  const full = el("i", {});
  full.style.width = `${limit ? Math.max(0, Math.min(100, (100 * left) / limit)) : 0}%`;
  return el("span", { class: "meter", "aria-hidden": "true" }, full);
};

const budgetRow = (name, used, limit, unit) => {
  if (limit === null || used === null) {
    const words = used === null ? "no prices" : `${short(used)}${unit} used, no limit`;
    return el("li", {}, el("span", { class: "name" }, name), el("span", { class: "number wide" }, words));
  }
  const words = `${short(Math.max(0, limit - used))} of ${short(limit)}${unit}`;
  return el("li", {}, el("span", { class: "name" }, name), meter(limit - used, limit), el("span", { class: "number" }, words));
};

const noteOf = ({ event, guard }) => (guard ? `${event}_${guard}` : event);

// The picture: the present row, the rows whose guards were false, the present state, and the path so far.
const pictureOf = (root) => {
  const groups = (selector) => [...root.querySelectorAll(selector)];
  const keyOf = ({ event, source, guard, target }) => [event, source, guard || "", target].join(" ");
  const lines = new Map(groups("[data-event]").map((group) => [keyOf(group.dataset), group]));
  const arcs = new Map(groups("[data-arc]").map((group) => [group.dataset.arc, group]));
  const states = new Map(groups("[data-state]").map((group) => [group.dataset.state, group]));
  const notes = new Map(groups("[data-note]").map((group) => [group.dataset.note, group]));

  const isDrawn = () => root.getClientRects().length > 0;
  const band = (group) => {
    if (!isDrawn()) return;
    const box = group.getBBox();
    if (!box.width) return;
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const size = { x: box.x - 3, y: box.y, width: box.width + 6, height: box.height, rx: 3, class: "band" };
    for (const [name, value] of Object.entries(size)) rect.setAttribute(name, value);
    group.prepend(rect);
  };

  const clear = () => {
    for (const group of groups(".now, .tried, .here")) group.classList.remove("now", "tried", "here");
    for (const rect of groups(".band")) rect.remove();
  };

  const reveal = (group) => {
    const frame = root.getBoundingClientRect();
    const box = group.getBoundingClientRect();
    const past = (low, high, from, to) => (low < from ? low - from : high > to ? high - to : 0);
    root.scrollBy({
      left: past(box.left - 40, box.right + 40, frame.left, frame.right),
      top: past(box.top - 20, box.bottom + 20, frame.top, frame.bottom),
    });
  };

  const show = ({ row, tried = [], state }) => {
    clear();
    if (state) states.get(state)?.classList.add("here");
    for (const each of tried) lines.get(keyOf(each))?.classList.add("tried");
    if (!row) return;
    const line = lines.get(keyOf(row));
    const arc = arcs.get(`${row.source} ${row.target}`) || notes.get(noteOf(row));
    line?.classList.add("now");
    arc?.classList.add("now");
    if (line) band(line);
    if (arc && isDrawn()) reveal(line?.getBBox().width ? line : arc);
  };

  const mark = (rows) => {
    for (const group of groups(".been")) group.classList.remove("been");
    for (const row of rows) {
      (arcs.get(`${row.source} ${row.target}`) || notes.get(noteOf(row)))?.classList.add("been");
      lines.get(keyOf(row))?.classList.add("been");
      states.get(row.target)?.classList.add("been");
      states.get(row.source)?.classList.add("been");
    }
  };

  return { show, mark };
};

// The ladder view: the same marks on its lines. If states share a list, it names the first of them.
const laddersOf = (root) => {
  const lines = [...root.querySelectorAll("li[data-event]")];
  const isOf = ({ dataset }, row) =>
    dataset.event === row.event && dataset.guard === (row.guard || "") && dataset.target === row.target;
  const lineOf = (row) => lines.find((each) => isOf(each, row) && each.dataset.source === row.source) ?? lines.find((each) => isOf(each, row));
  const show = ({ row, tried = [] }) => {
    for (const each of lines) each.classList.remove("now", "tried");
    for (const each of tried) lineOf(each)?.classList.add("tried");
    if (row) lineOf(row)?.classList.add("now");
  };
  const mark = (rows) => {
    for (const each of lines) each.classList.remove("been");
    for (const row of rows) lineOf(row)?.classList.add("been");
  };
  return { show, mark };
};

// Both views. The picture opens at once if there is room for it, and scrolls to the present step.
const viewsOf = () => {
  const picture = pictureOf(byId("picture"));
  const ladders = laddersOf(byId("ladders"));
  let shown = {};
  const show = (step) => {
    shown = step;
    picture.show(step);
    ladders.show(step);
  };
  const mark = (rows) => {
    picture.mark(rows);
    ladders.mark(rows);
  };
  byId("hub").open = matchMedia("(min-width: 1000px)").matches;
  byId("hub").addEventListener("toggle", () => picture.show(shown));
  return { show, mark, markLadders: ladders.mark };
};

const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

// A list box: one tab stop, and the arrow keys, Home and End move between its options.
const listBox = (list, onSelect) => {
  const options = () => [...list.querySelectorAll("[role=option]")];
  let selected = -1;
  const select = (place) => {
    const all = options();
    selected = Math.max(0, Math.min(all.length - 1, place));
    all.forEach((option, index) => option.setAttribute("aria-selected", index === selected));
    list.setAttribute("aria-activedescendant", all[selected].id);
    const frame = list.getBoundingClientRect();
    const box = all[selected].getBoundingClientRect();
    if (box.top < frame.top) list.scrollTop += box.top - frame.top;
    if (box.bottom > frame.bottom) list.scrollTop += box.bottom - frame.bottom;
    onSelect(selected);
  };
  list.addEventListener("keydown", (event) => {
    const by = MOVES[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(selected + by);
  });
  list.addEventListener("click", (event) => {
    const place = options().indexOf(event.target.closest("[role=option]"));
    if (place >= 0) select(place);
  });
  return { select, selected: () => selected };
};
