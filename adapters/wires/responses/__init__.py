"""OpenAI's Responses: items in, items out."""
