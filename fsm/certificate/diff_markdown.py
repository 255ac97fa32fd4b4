"""x"""


def as_markdown(diff):
    return ""
