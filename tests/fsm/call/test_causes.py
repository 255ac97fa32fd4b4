import pytest

from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.call.table import CALL
from rungwise.fsm.failures.classify import classify_response
from rungwise.fsm.failures.failure import event_of_failure


def test_describes_every_event_of_a_call_in_terms_of_http() -> None:
    assert list(CAUSES) == [each.name for each in CALL.declared_events]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((status, {"error": {"message": "no"}}) for status in (429, 408, 401, 402, 403, 400, 422, 413)),
        (404, {"error": {"code": "model_not_found", "message": "no such model"}}),
    ],
)
def test_a_status_stands_at_the_event_that_it_brings_about(status: int, body: object) -> None:
    event = event_of_failure(classify_response(status, {}, body))
    assert str(status) in CAUSES[event]


@pytest.mark.parametrize("status", [500, 502, 503, 529, 599])
def test_a_failure_of_the_server_may_pass(status: int) -> None:
    assert event_of_failure(classify_response(status, {}, {})) == "failed_transiently"
    assert "500 to 599" in CAUSES["failed_transiently"]
