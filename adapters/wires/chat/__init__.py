"""Chat completions: the protocol of OpenAI, and of every server that speaks it.

It is the common form: callers' messages are read in it unless they show another one, and the common
parameters have its names.
"""

from rungwise.adapters.wires.chat.dialects import FOREIGN_FIELDS, FOREIGN_PARTS
from rungwise.adapters.wires.chat.plain import (
    read_audio,
    read_file,
    read_image_url,
    read_text,
    read_url,
)
from rungwise.adapters.wires.registry import KeyPlace, Wire

URLS = ("video_url", "audio_url", "document_url", "file_url")
"""The types of parts that are something at a URL."""

WIRE = Wire(
    protocol="chat completions",
    client="openai.OpenAI(base_url={!r})",
    client_base="/v1",
    client_path="/v1/chat/completions",
    # [openai-python, completion_create_params]
    parameters="audio frequency_penalty function_call functions logit_bias logprobs metadata"
    " modalities moderation n prediction presence_penalty prompt_cache_key prompt_cache_options"
    " prompt_cache_retention safety_identifier service_tier store stream_options top_logprobs user"
    " verbosity web_search_options",
    extensions="best_of cache_control chat_template_kwargs enable_thinking guided_choice"
    " guided_grammar guided_json guided_regex min_p min_tokens models plugins provider reasoning"
    " repetition_penalty thinking top_a top_k transforms",
    keys=(
        KeyPlace("api.openai.com *.api.openai.com", ("OPENAI_API_KEY",)),
        KeyPlace(
            "*.openai.azure.com *.cognitiveservices.azure.com *.services.ai.azure.com",
            ("AZURE_OPENAI_API_KEY",),
        ),
        KeyPlace("api.deepseek.com", ("DEEPSEEK_API_KEY",)),
        KeyPlace("api.mistral.ai codestral.mistral.ai", ("MISTRAL_API_KEY",)),
        KeyPlace("api.moonshot.ai api.moonshot.cn", ("MOONSHOT_API_KEY",)),
        KeyPlace(  # [alibabacloud.com/help/model-studio/base-url]
            "dashscope.aliyuncs.com dashscope-intl.aliyuncs.com dashscope-us.aliyuncs.com"
            " dashscope-finance.aliyuncs.com cn-hongkong.dashscope.aliyuncs.com",
            ("DASHSCOPE_API_KEY",),
        ),
        KeyPlace("api.groq.com", ("GROQ_API_KEY",)),
        KeyPlace("api.cerebras.ai", ("CEREBRAS_API_KEY",)),
        KeyPlace("openrouter.ai eu.openrouter.ai us.openrouter.ai", ("OPENROUTER_API_KEY",)),
        KeyPlace("api.perplexity.ai", ("PERPLEXITY_API_KEY",)),
        KeyPlace("api.x.ai *.api.x.ai", ("XAI_API_KEY",)),  # [docs.x.ai/developers/regions]
        KeyPlace("api.z.ai", ("ZAI_API_KEY", "Z_AI_API_KEY")),
        KeyPlace("api.minimax.io api.minimaxi.com api.minimax.chat", ("MINIMAX_API_KEY",)),
        KeyPlace("api.together.xyz api.together.ai", ("TOGETHER_API_KEY",)),
        KeyPlace("api.fireworks.ai", ("FIREWORKS_API_KEY",)),
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
