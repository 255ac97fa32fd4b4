"""A policy against measured rates: how often, how long, how expensive."""
