"""Instructor with its defaults, in the mode that asks for JSON with a schema."""

import instructor
from pydantic import BaseModel


class Advice(BaseModel):
    answer: str


client = instructor.from_provider("openai/gpt-5", mode=instructor.Mode.JSON_SCHEMA)
message = {"role": "user", "content": "What should a caller expect?"}
print(client.chat.completions.create(response_model=Advice, messages=[message]).answer)
