"""Traces and metrics of calls and turns, by the conventions of OpenTelemetry."""
