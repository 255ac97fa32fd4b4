// Below the machine: a policy to edit. `rungwise verify` itself proves it, in this browser; its certificate, diagram and
// diff follow as you type, and the machine above plays it.
(() => {
  const here = document.currentScript.src;
  const root = document.getElementById("prove");
  const DEFAULT = '# policy.toml\n[limits]\nretries = 2\nreasks = 1\n\n[budget]\nattempts = 12\nseconds = 90\n';
  const PAUSE = 700; // milliseconds without a key press before a proof begins

  const el = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const policy = el("textarea", { id: "prove-policy", rows: 9, spellcheck: "false", autocapitalize: "off" });
  policy.value = DEFAULT;
  const backends = el("input", { id: "prove-backends", type: "number", min: 1, max: 4, value: 2 });
  const button = el("button", { id: "prove-start", type: "button", class: "md-button" }, "Prove this policy");
  const says = el("p", { id: "prove-says", role: "status" });
  const certificate = el("pre", { id: "prove-certificate", tabindex: 0, role: "region", "aria-label": "The certificate" });
  const diagram = el("img", { id: "prove-diagram", alt: "The machine under this policy" });
  const diff = el("iframe", { id: "prove-diff", sandbox: "", title: "What this policy changes, compared with the default" });
  const shown = el("div", { id: "prove-shown", hidden: "" }, certificate, diagram, diff);

  let worker = null;
  let isBusy = false;
  let isWanted = false; // whether the policy has changed since the proof began
  let timer = null;
  let proof = "";

  const PARTS = {
    certificate: (text) => (certificate.textContent = text),
    proved: (seconds) => {
      proof = `Proved in ${seconds} s.`;
      says.textContent = `${proof} The diagram, the machine and the diff follow.`;
    },
    diagram: (svg) => (diagram.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`),
    machine: (html) => (document.getElementById("machine").srcdoc = html),
    diff: (html) => {
      diff.srcdoc = html;
      says.textContent = `${proof} The machine above plays it now.`;
    },
    problem: (text) => (says.textContent = text),
    end: () => {
      isBusy = false;
      if (isWanted) prove();
    },
  };

  const prove = () => {
    isWanted = isBusy;
    if (isBusy) return;
    isBusy = true;
    says.textContent = worker ? "Proving …" : "Loading Python, then proving …";
    if (!worker) {
      worker = new Worker(new URL("worker.mjs", here), { type: "module" });
      worker.addEventListener("message", ({ data }) => {
        if (data.name !== "end" && data.name !== "problem") shown.hidden = false;
        PARTS[data.name](data.value);
      });
      worker.addEventListener("error", () => (says.textContent = "Python could not be loaded in this browser."));
    }
    worker.postMessage({ policy: policy.value, backends: Math.min(4, Math.max(1, Number(backends.value) || 1)) });
  };
  const later = () => {
    if (!worker) return;
    clearTimeout(timer);
    timer = setTimeout(prove, PAUSE);
  };
  button.addEventListener("click", prove);
  for (const each of [policy, backends]) each.addEventListener("input", later);

  const offer = ({ bytes, missing }) => {
    if (missing) {
      root.textContent = `This copy of the site cannot prove a policy in the browser, for ${missing}. On your machine: rungwise verify policy.toml`;
      return;
    }
    button.textContent = `Prove this policy (loads ${(bytes / 1e6).toFixed(1)} MB from this site, once)`;
    const row = el("p", {}, el("label", { for: "prove-backends" }, "Backends "), backends, " ", button);
    root.replaceChildren(el("p", {}, el("label", { for: "prove-policy" }, "A policy to prove")), policy, row, says, shown);
  };
  fetch(new URL("size.json", here))
    .then((answer) => answer.json())
    .then(offer)
    .catch(() => offer({ missing: "it is not read from a server" }));
})();
