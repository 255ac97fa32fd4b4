"""Run turns: their calls over HTTP, the caller's tools, and the compactor."""
