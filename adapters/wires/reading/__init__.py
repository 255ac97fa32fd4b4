"""Read streamed bodies: frames, lines, deltas."""
