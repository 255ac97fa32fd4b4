"""A picture as SVG: the hub view and the ladder view, with their panels and columns."""
