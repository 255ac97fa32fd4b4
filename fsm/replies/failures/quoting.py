"""What a provider says in an error, as far as errors, results and journals may quote it.

Theory

Only the provider's own words explain some errors: "organization must be verified" is a 403 like
any other. But providers repeat what they were sent, keys and prompts among it, whole or cut, in
capitals or in the middle of a sentence. Nothing tells where such an echo begins. So each word has
to be cleared by itself:

* What is a secret that was sent, or a part of one, is struck out, and so is what looks like a key:
  a run of `KEY_LIKE` letters and digits. A server in between may show the keys of its owner.
* A word is struck out if the prompt holds it. A cut or lengthened word shares a few letters with
  it, so five letters in a row are enough, or three if there is a digit among them. Scripts that put
  no space between words are compared letter by letter.
* Else a long prompt, which holds nearly every word, would leave nothing. So the common words of
  errors (`COMMON`) stand, and the name of the backend, which errors show anyway. They are nobody's
  secret by themselves, but a sentence of them may be one: `RUN` of them in a row that stand so in
  the prompt are struck out as well, and so is a whole text of fewer.

Where this cannot be done, nothing is quoted: what is written in escapes could hide anything, and of
a message that is mostly struck out too little is left. A provider that means to give the prompt
away, letter by letter or backwards, is not stopped; it has the prompt anyway.

Cost: some searches for each uncommon word, through a prompt of at most `LARGEST_PROMPT` characters:
half a millisecond for a page, 30 ms for the longest, once for each attempt that the provider
answers with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from unicodedata import normalize

from rungwise.fsm.values.label import label
from rungwise.fsm.values.patterns import Pattern
from rungwise.fsm.values.secret import HIDDEN

LONGEST_QUOTATION: Final = 300
"""Characters of a provider's words that are quoted."""
LARGEST_PROMPT: Final = 1_000_000
"""Characters of a prompt that are compared; of the error of a longer one nothing is quoted."""
RUN: Final = 3
"""Words in a row that stand in the prompt as well, and are taken for a part of it."""

_READ_AT_MOST: Final = 1_000  # characters of the message
_SHARED_LETTERS: Final = 5
_SHARED_WITH_DIGITS: Final = 3

_WORD: Final = Pattern(r"[A-Za-z0-9]+|[^\x00-\x7f]+")
_KEY: Final = Pattern(r"[\w.~+/=-]{8,}")
_KEY_LIKE: Final = Pattern(
    r"\b(sk|pk|rk|gsk|xai|hf|nvapi)[_-][\w.-]{8,}"
    r"|(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}"
)
# pages, and what is written in escapes or holds characters that nobody sees
_UNCLEAR: Final = Pattern(
    r"\A\s*<|\\|%[0-9A-Fa-f]{2}|&#?\w+;"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
)
# a picture or a file: a part of it says nothing, unless it looks like a key
_ENCODED_FILE: Final = Pattern(r"(data:[^,]{0,100},)?[A-Za-z0-9+/=_-]{1000}")
_BREAKS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_OF_MESSAGES: Final = """
assistant
developer
function
image
image url
input text
model
object
output text
string
system
text
tool
tool result
tool use
user
"""
"""What stands in the messages of a prompt beside what they say."""

_COMMON_WORDS: Final = """
    a able about above accept accepted accepts access account accounts action active add added
    additional adjust admin administrator after again ai all allocated allow allowed allows already
    also an and another anthropic any anymore api appears application are argument arguments array
    as assistant at attempt attempts audio auth authenticate authenticated authentication
    authorization authorized available azure balance be bearer because been before being below beta
    between beyond billing block blocked body both busy but by call called calls can cannot
    capacity change chat check choose client close closed code com combination compatible complete
    completed completion completions concurrency concurrent config configuration configured connect
    connection console contact contain contains content contents context conversation could count
    create created credit credits current currently daily dashboard data day days deactivated
    deepseek default denied depleted deployment deprecated details dev did different disabled
    discontinued do docs documentation does doesn domain down due during each edit either email
    empty enable enabled end endpoint endpoints engine enough ensure entity error errors event
    every exceed exceeded exceeding exceeds exist existing exists expected expired external extra
    failed failure feature few fewer field fields file files filter find first following for
    forbidden format found free from full function functions gateway general generate generated
    generation get go good google greater groq group had has have header headers help here high
    higher hour hours how however http https id if image images in inaccessible inactive include
    included including incorrect increase index inference input inputs instead insufficient integer
    internal into invalid io is issue it items its json keep key keys kind large larger last later
    least length less level like limit limited limits list load loaded loading local location log
    long longer lower made make management many match max maximum may means media memory message
    messages method min minimum minute minutes missing mistral mode model models modify month
    monthly more most must name near need needed needs network never new next no none not note
    nothing now number object occurred of off on once one only open openai openrouter operation
    option options or order org organisation organization organizations other our out output
    outputs over overloaded own page paid parameter parameters parse part pass passed payload
    payment per period permission permissions permitted plan plans platform please policy possible
    preview price pricing problem process processing project projects prompt prompts properties
    property provide provided provider providers purchase quota quotas range rate rates reach
    reached read reasoning received recharge reduce refer region rejected remaining remove removed
    request requested requests require required requires reset resets resource resources response
    restricted restriction restrictions result results retired retry return returned role route
    router run same schema scope seconds section see select send sent server servers service
    services set setting settings shorten should shut size so some something soon specified specify
    spend spending standing start status still stop stream streaming string subscribe subscription
    such suggest support supported supports suspended switch system team temporarily temporary
    terminated text than that the their them then there these they third this those through tier
    time timed timeout times to token tokens too tool tools top total traffic true try turn type
    types unable unauthorized unavailable under unexpected unknown unless unlimited unrecognized
    unsupported until up update upgrade upstream url usage use used user users uses using valid
    validation value values verification verified verify version via view visit wait want was way
    we week weekly were what when where whether which while will with within without work workspace
    wrong www yet you your
"""
COMMON: Final = frozenset(_COMMON_WORDS.split())
"""The common words of errors."""


def quotation(
    message: str,
    sent: Iterable[str],
    backend: str,
    is_secret: Callable[[str], bool],
) -> str:
    """Return what may be quoted of a provider's message; "" for nothing.

    Arguments:
        message: the provider's.
        sent: every text that was sent, or came in reply, that the message may repeat.
        backend: the name of the backend, which may be shown.
        is_secret: tells whether a word is a secret that was sent, or a part of one.
    """
    message = message[:_READ_AT_MOST]
    texts = [text for text in sent if not _ENCODED_FILE.match(text)]
    if _UNCLEAR.search(message) or sum(map(len, texts)) > LARGEST_PROMPT:
        return ""
    texts = [_plain(text) for text in texts]
    prompt = "\n".join([f" {text} " for text in texts])
    short = {text for text in texts if text.count(" ") < RUN - 1}
    short = short.difference(_OF_MESSAGES.split("\n"))
    common = COMMON.union(_plain(backend).split())
    text = " ".join(message.split())
    text = _KEY.sub(lambda word: HIDDEN if is_secret(word[0]) else word[0], text)
    text = _KEY_LIKE.sub(HIDDEN, text)
    words = list(_WORD.finditer(text))
    plain = [_plain(word[0]) for word in words]
    struck = set[int]()
    for start, word in enumerate(plain):
        whole = words[start][0]
        may_be_secret = len(whole) > _SHARED_WITH_DIGITS and is_secret(whole)
        if word not in common and (may_be_secret or _is_in(prompt, word)):
            struck.add(start)
        for size in range(1, min(RUN, len(plain) - start) + 1):
            run = " ".join(plain[start : start + size])
            if run in short or (size == RUN and run in prompt):
                struck.update(range(start, start + size))
    pieces = []
    end = 0
    for number in sorted(struck):
        if number - 1 not in struck:  # else what stands between is struck out as well
            pieces += [text[end : words[number].start()], HIDDEN]
        end = words[number].end()
    if len(words) - len(struck) <= pieces.count(HIDDEN):
        return ""
    pieces.append(text[end:])
    return str(label("".join(pieces), LONGEST_QUOTATION))


def _plain(text: str) -> str:
    """Return the words of a text, in small letters, with a space between two of them."""
    return " ".join(normalize("NFKC", text).casefold().translate(_BREAKS).split())


def _is_in(prompt: str, word: str) -> bool:
    """Tell whether a prompt holds a word, or enough letters of it in a row."""
    if not word.isascii():
        return any(letter in prompt for letter in word)
    if len(word) < _SHARED_WITH_DIGITS:
        return f" {word} " in prompt
    size = _SHARED_LETTERS if word.isalpha() else _SHARED_WITH_DIGITS
    places = range(max(1, len(word) - size + 1))
    return any(word[start : start + size] in prompt for start in places)
