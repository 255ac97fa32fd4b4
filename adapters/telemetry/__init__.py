"""Traces and metrics of calls and turns, by the conventions of OpenTelemetry.

`otel` attaches an observer to a client. `tracing` makes spans of the steps that it is called with,
`meters` counts them, and `names` has the words of the conventions.
"""
