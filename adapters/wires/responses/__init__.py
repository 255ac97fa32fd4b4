"""OpenAI's Responses."""

from rungwise.adapters.wires.chat.plain import read_file, read_image_url, read_text
from rungwise.adapters.wires.registry import Wire
from rungwise.adapters.wires.responses.plain import read_item

WIRE = Wire(
    protocol="Responses",
    client="openai.OpenAI(base_url={!r})",
    client_base="/v1",
    client_path="/v1/responses",
    members={
        **dict.fromkeys(("input_text", "output_text"), "type text refusal"),
        "input_image": "type image_url url detail file_id",
        "input_file": "type file file_data filename file_url file_id",
        "tool": "type name description format strict parameters",
    },
    parts={
        **dict.fromkeys(("input_text", "output_text"), read_text),
        "input_image": read_image_url,
        "input_file": read_file,
    },
    messages={"": read_item},
    references="item_reference",
)
