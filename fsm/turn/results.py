"""STUB"""

import orjson


def told(value):
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def shortened(texts, tokens):
    return tuple(texts)
