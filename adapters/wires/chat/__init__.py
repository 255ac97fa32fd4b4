"""Chat completions: the protocol of OpenAI, and of every server that speaks it."""

from rungwise.adapters.wires.chat.dialects import FOREIGN_FIELDS, FOREIGN_PARTS
from rungwise.adapters.wires.chat.plain import read_audio, read_file, read_image_url, read_text, read_url
from rungwise.adapters.wires.registry import KeyPlace, Wire

URLS = ("video_url", "audio_url", "document_url", "file_url")
"""The types of parts that are something at a URL."""

WIRE = Wire(
    protocol="chat completions",
    client="openai.OpenAI(base_url={!r})",
    client_base="/v1",
    client_path="/v1/chat/completions",
    keys=(
        KeyPlace(r"([a-z0-9-]+\.)*openai\.com", ("OPENAI_API_KEY",)),
        KeyPlace(r"[a-z0-9-]+\.(openai|cognitiveservices|services\.ai)\.azure\.com", ("AZURE_OPENAI_API_KEY",)),
        KeyPlace(r"api\.deepseek\.com", ("DEEPSEEK_API_KEY",)),
        KeyPlace(r"([a-z0-9-]+\.)*mistral\.ai", ("MISTRAL_API_KEY",)),
        KeyPlace(r"api\.moonshot\.(ai|cn)", ("MOONSHOT_API_KEY",)),
        KeyPlace(r"dashscope[a-z-]*\.aliyuncs\.com", ("DASHSCOPE_API_KEY",)),
        KeyPlace(r"api\.groq\.com", ("GROQ_API_KEY",)),
        KeyPlace(r"api\.cerebras\.ai", ("CEREBRAS_API_KEY",)),
        KeyPlace(r"openrouter\.ai", ("OPENROUTER_API_KEY",)),
        KeyPlace(r"([a-z0-9-]+\.)*x\.ai", ("XAI_API_KEY",)),
        KeyPlace(r"api\.z\.ai", ("ZAI_API_KEY", "Z_AI_API_KEY")),
        KeyPlace(r"api\.minimax(i)?\.(io|com|chat)", ("MINIMAX_API_KEY",)),
        KeyPlace(r"api\.together\.(xyz|ai)", ("TOGETHER_API_KEY",)),
        KeyPlace(r"api\.fireworks\.ai", ("FIREWORKS_API_KEY",)),
    ),
    members={
        **dict.fromkeys(("text", "refusal"), "type text refusal"),
        "image_url": "type image_url url detail file_id",
        **{kind: f"type url document_name {kind}" for kind in URLS},
        "input_audio": "type input_audio data format",
        "file": "type file file_data filename file_url file_id",
        "tool": "type name description format function custom strict parameters",
    },
    parts={
        **dict.fromkeys(("text", "refusal"), read_text),
        "image_url": read_image_url,
        **dict.fromkeys(URLS, read_url),
        "input_audio": read_audio,
        "file": read_file,
    },
    kinds=" ".join(("reference", *FOREIGN_PARTS)),
    sealed=" ".join(FOREIGN_FIELDS - {"images"}),
    definitions="function custom",
)
