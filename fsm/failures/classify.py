"""Why a call failed, as one of few reasons, from whatever a provider said.

A response is read in three steps: `ErrorBody` gathers what its body says; `RULES` names the reason; `STATUSES` has the
last word. A structured code is believed on any status; a number and prose only on the statuses of their rule. Providers
quote prompts in their prose, so no wording leads to a compaction, a refusal or a repair against a code that names
another reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from rungwise.fsm.failures.asked_wait import asked_wait, plain_headers
from rungwise.fsm.failures.body import ErrorBody, decoded_body
from rungwise.fsm.failures.failure import Failure, Reason
from rungwise.fsm.failures.rules import BY_CODE_FIRST, REFINED_BY_PROSE, RULES, STATUS_CLASSES, STATUSES, Rule


def classify_response(status: int | None, headers: Mapping[str, str], body: object) -> Failure:
    """Say why a response is a failure; never raises, whatever it is given.

    Arguments:
        status: the HTTP status; None for an error event inside a stream that began with 200.
        headers: the response's headers, in any case.
        body: the decoded JSON, or the text or the bytes of the body.
    """
    names, decoded, error = plain_headers(headers), decoded_body(body), ErrorBody()
    error.read(decoded)
    error.add_words([names.get("x-amzn-errortype", "").partition(":")[0]])
    reason = _reason_of(error, status, is_object=not isinstance(decoded, str))
    return Failure(
        reason,
        status=status,
        code=error.code,
        message=error.prose[0] if error.prose else "",
        asked_wait=asked_wait(names, decoded, error.text),
        should_retry={"true": True, "false": False}.get(names.get("x-should-retry", "").lower()),
        parameter=error.parameter if reason == "parameter_unsupported" else None,
        available_tokens=error.available_tokens if reason == "output_cap" else None,
        largest_output=error.largest_output if reason == "output_cap" else None,
    )


def _reason_of(error: ErrorBody, status: int | None, *, is_object: bool) -> Reason:
    known = error.status if status is None or 200 <= status < 300 else status
    told = {"output_cap": error.available_tokens, "parameter_unsupported": error.parameter}
    rules = [rule for rule in RULES if told.get(rule.reason, "") is not None]
    named = next((rule for rule in rules if rule.is_named(error, known)), None)
    for rule in rules:
        if rule is named or (rule.is_worded(error, known) and not _contradicts(rule, named)):
            return rule.reason
    if known is not None:
        return STATUSES.get(known) or STATUS_CLASSES.get(known // 100, "unknown")
    return "unknown" if status is None or (is_object and (error.words or error.prose)) else "malformed"


def _contradicts(rule: Rule, named: Rule | None) -> bool:
    """Tell whether a wording says what the structured code beside it rules out."""
    if named is None or rule.reason not in BY_CODE_FIRST or rule.reason == named.reason:
        return False
    if named.reason == "rate_limit" and rule.prose is None:
        return True  # it takes words to make a request too large of a rate limit, for a 413 stands beside both
    return rule.reason not in REFINED_BY_PROSE.get(named.reason, frozenset())
