"""The private names of jsonschema that the bound on the work rests on."""

from importlib.metadata import version

import jsonschema

from rungwise.fsm.replies.schemas import validator
from rungwise.fsm.replies.schemas.validator import TooMuchWork, bounded, draft_of, spend

WHAT_TO_DO = (
    f"jsonschema {version('jsonschema')} has no {{}} any more. "
    "fsm/replies/schemas/validator.py replaces `evolve` of its validators and reads `_registry` "
    "and `_resolver`, so that a subschema is checked by the class that counts the work. Look how "
    "the new version makes the validator of a subschema (`evolve` and `descend` in "
    "jsonschema/validators.py), change `_evolve` and `draft_of` accordingly, run "
    "tests/fsm/replies/schemas, and then raise the upper bound of jsonschema in pyproject.toml."
)

SCHEMA = {
    "$defs": {"name": {"$schema": "http://json-schema.org/draft-07/schema#", "minLength": 2}},
    "type": "object",
    "properties": {"first": {"$ref": "#/$defs/name"}, "last": {"type": "string"}},
}


def test_the_private_names_of_jsonschema_are_there() -> None:
    made = jsonschema.Draft202012Validator(SCHEMA)
    for name in ("evolve", "_registry", "_resolver", "descend", "iter_errors"):
        assert hasattr(made, name), WHAT_TO_DO.format(f"`{name}`")
    again = jsonschema.Draft202012Validator(
        schema=SCHEMA, registry=made._registry, _resolver=made._resolver
    )
    assert again.is_valid({"first": "Ada"}), WHAT_TO_DO.format("argument `_resolver`")


def test_every_subschema_is_checked_by_the_class_that_counts(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    draft = draft_of(SCHEMA)
    kinds = []
    plain = validator._evolve

    def watched(made, **changes):  # type: ignore[no-untyped-def]
        sub = plain(made, **changes)
        kinds.append(type(sub))
        return sub

    monkeypatch.setattr(draft, "evolve", watched)
    made = draft(SCHEMA)
    assert [error.message for error in made.iter_errors({"first": "A", "last": "B"})] == [
        "'A' is too short"
    ]
    assert len(kinds) >= 2, WHAT_TO_DO.format("call of `evolve` for a subschema")
    assert set(kinds) == {draft}, WHAT_TO_DO.format("validator of a subschema of the same class")


def test_work_is_counted_within_subschemas() -> None:
    made = draft_of(SCHEMA)(SCHEMA)
    with bounded():
        spend(validator.MOST_WORK - 1)
        try:
            list(made.iter_errors({"first": "Ada", "last": "Lovelace"}))
        except TooMuchWork:
            return
    raise AssertionError(WHAT_TO_DO.format("count of the work in subschemas"))
