"""The machine that stands in the documentation, and its proof in the browser.

`site.py` writes both for the built site. The other files go there: `prove.js` is the editor of the
policy, `worker.mjs` runs Pyodide beside the page, `proving.py` runs in Pyodide, and `shims/` stands
in there for libraries that are compiled.
"""
