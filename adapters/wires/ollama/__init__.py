"""Ollama's native chat."""
