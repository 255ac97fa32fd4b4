// The pages of the runs within a run. Each is written when it is opened, into a frame in a dialog.
const framesOf = (data, isOver) => {
  const embedded = (value) =>
    JSON.stringify(value).replace(/[<>&]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

  const html = (page, first) => {
    const [toTitle, toBody, toData, toEnd] = data.shell;
    const body = page.parts.map((part) => data.pool[part]).join("");
    const all = { machine: data.machines[page.machine], ...page.data, ...(first ? { first } : {}) };
    return toTitle + page.title + toBody + body + toData + embedded(all) + toEnd;
  };

  const title = el("h2", { id: "frame-title" });
  const earlier = el("button", { id: "frame-earlier", type: "button" }, "Earlier");
  const later = el("button", { id: "frame-later", type: "button" }, "Later");
  const close = el("button", { id: "frame-close", type: "button" }, "Close");
  const place = el("div", { class: "frame" });
  const dialog = el(
    "dialog",
    { id: "inner", "aria-labelledby": "frame-title" },
    el("div", { class: "bar-of-frame" }, title, earlier, later, close),
    place,
  );
  let shown = 0;

  const has = (number) => number >= 1 && number <= data.pages.length && data.pages[number - 1] !== null;
  // Open a page, at an attempt if one is given.
  const open = (number, first) => {
    if (!has(number)) return;
    shown = number;
    title.textContent = `Call ${number} of ${data.pages.length}`;
    earlier.disabled = !has(number - 1);
    later.disabled = !has(number + 1);
    const frame = el("iframe", { title: title.textContent });
    frame.addEventListener("load", () => {
      // Key presses in the frame do not reach the outer page.
      frame.contentDocument.addEventListener("keydown", (event) => event.key === "Escape" && dialog.close());
      frame.contentWindow.focus();
    });
    frame.srcdoc = html(data.pages[number - 1], first);
    place.replaceChildren(frame);
    if (!dialog.open) dialog.showModal();
  };

  earlier.addEventListener("click", () => open(shown - 1));
  later.addEventListener("click", () => open(shown + 1));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    place.replaceChildren();
    isOver(shown);
  });
  document.body.append(dialog);
  return { open, has };
};
