// Runs the real `verify` beside the page: Python in WebAssembly, and the core. All of it comes from the site itself.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const begun = (async () => {
  const python = await loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href });
  const bundle = await fetch(new URL("rungwise.zip", import.meta.url));
  python.unpackArchive(await bundle.arrayBuffer(), "zip", { extractDir: "/core" });
  return python.runPython("import sys; sys.path.insert(0, '/core'); from proving import proved; proved");
})();

// A policy and the length of its chain come in; each part goes out as soon as it is there, then `end`.
addEventListener("message", async ({ data }) => {
  try {
    const parts = (await begun)(data.policy, data.backends);
    for (const part of parts) {
      const [name, value] = part.toJs();
      part.destroy();
      postMessage({ name, value });
    }
    parts.destroy();
  } catch (error) {
    postMessage({ name: "problem", value: `The proof could not run: ${error.message}` });
  }
  postMessage({ name: "end" });
});
