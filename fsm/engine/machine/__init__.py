"""Tables, and the one `transitions` machine of each; nothing here knows of a model call."""
