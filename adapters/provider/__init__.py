"""The embedded provider that misbehaves by script."""
