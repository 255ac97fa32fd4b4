"""Write a language model that counts: after " 007" it says " 008", and after the last number it
ends its turn.

    python tests/real/model.py PATH LAST plain|mindful

Its weights are set by hand, so what a server must say is known letter by letter. An embedding holds
one token and nothing else, attention and the feed-forward network add nothing, and the output
matrix is the table of what follows what; so the next token depends on the last one alone.
`ignore_eos`, llama.cpp's own parameter, takes the end away: then it begins again.

It needs `gguf` and numpy, which `build.gguf_python` has, and not Rungwise.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np

CONTROL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
HEAD = 64
HIDDEN = 32
CONTEXT = 8192
SURE = 10.0
"""The weight of what follows. A final norm multiplies it by some 25, so nothing else has any chance
worth naming.
"""


PLAIN = """\
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""

MINDFUL = """\
{%- set ns = namespace(said='') -%}
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content }}<|end|>
{%- if message.role == 'assistant' -%}{%- set ns.said = ' ' + message.content.split(' ')[-1] -%}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{ ns.said }}{%- endif -%}
"""  # noqa: E501

TEMPLATES = {"plain": PLAIN, "mindful": MINDFUL}
"""The chat templates. With the plain one the model begins to count anew in each turn of the
assistant; the mindful one puts the last word that the assistant has said before its next turn, so
that the model goes on from there."""


def vocabulary(last: int) -> list[str]:
    """Return the tokens: control, bytes, numbers; written for the tokenizer "rwkv", which takes the
    longest that fits.

    Arguments:
        last: the number that the model counts to.
    """
    letters = [rf"\x{byte:02x}" for byte in range(256)]
    return [*CONTROL, *letters, *(f" {number:03}" for number in range(1, last + 1))]


def follows(tokens: list[str]) -> np.ndarray:
    """Return the output matrix: a row for each token that may come, a column for each that came
    last.
    """
    first = len(CONTROL) + 256
    size = len(tokens)
    matrix = np.zeros((size, size), dtype=np.float32)
    matrix[first, :first] = SURE  # whatever is no number is followed by the first one
    for number in range(first, size - 1):
        matrix[number + 1, number] = SURE
    matrix[CONTROL.index("<|end|>"), size - 1] = SURE
    matrix[first, size - 1] = SURE / 2  # where the end is not allowed
    return matrix


def write(path: Path, last: int, template: str) -> None:
    """Write the model as a GGUF file.

    Arguments:
        path: where to.
        last: the number that it counts to, of three digits.
        template: the chat template.
    """
    tokens = vocabulary(last)
    size = len(tokens)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("counter")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    kinds = [
        gguf.TokenType.CONTROL if token in CONTROL else gguf.TokenType.NORMAL for token in tokens
    ]
    writer.add_token_types(kinds)
    writer.add_eos_token_id(CONTROL.index("<|end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    tensors = {
        "token_embd": np.eye(size, dtype=np.float32),
        "output_norm": np.ones(size, dtype=np.float32),
        "output": follows(tokens),
        "blk.0.attn_norm": np.ones(size, dtype=np.float32),
        "blk.0.ffn_norm": np.ones(size, dtype=np.float32),
        "blk.0.attn_q": np.zeros((HEAD, size), dtype=np.float32),
        "blk.0.attn_k": np.zeros((HEAD, size), dtype=np.float32),
        "blk.0.attn_v": np.zeros((HEAD, size), dtype=np.float32),
        "blk.0.attn_output": np.zeros((size, HEAD), dtype=np.float32),
        "blk.0.ffn_gate": np.zeros((HIDDEN, size), dtype=np.float32),
        "blk.0.ffn_up": np.zeros((HIDDEN, size), dtype=np.float32),
        "blk.0.ffn_down": np.zeros((size, HIDDEN), dtype=np.float32),
    }
    for name, weights in tensors.items():
        writer.add_tensor(f"{name}.weight", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a model that counts.")
    parser.add_argument("path", type=Path)
    parser.add_argument("last", type=int)
    parser.add_argument("template", choices=TEMPLATES)
    given = parser.parse_args()
    write(given.path, given.last, TEMPLATES[given.template])
