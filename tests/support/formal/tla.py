"""A table as a TLA+ specification, with what must always hold of it and that it ends; and what TLC
is told of it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rungwise.fsm.diagram.model import DecisionList
from rungwise.fsm.engine.machine.declare import Effect, Fact, Guard
from rungwise.fsm.engine.machine.table import Row, Table
from support.formal.shared import Names, Used, facts_of, folded, followed, limits_of, plain

TLA: Final = """
ACTION ASSUME ASSUMPTION AXIOM BOOLEAN BY CASE CHOOSE CONSTANT CONSTANTS COROLLARY DEF DEFINE DEFS
DOMAIN ELSE ENABLED
EXCEPT EXTENDS FALSE HAVE HIDE IF IN INSTANCE Int LAMBDA LEMMA LET LOCAL MODULE Nat NEW OBVIOUS
OMITTED ONLY OTHER PICK
PROOF PROPOSITION PROVE QED RECURSIVE SF_ STATE STRING SUBSET SUFFICES TAKE TEMPORAL THEN THEOREM
TRUE UNCHANGED UNION
USE VARIABLE VARIABLES WF_ WITH WITNESS
"""
OF_THE_SPECIFICATION: Final = """
state spent vars facts target after Limit Rungs Hub Outcomes NoRow Counters HasLeft Start Go End
Init Next Over Spec
TypeOK Total Moves Variant Less Pays Absorbs OnlySentIsInFlight Terminates digit above old new
counter
"""
TAKEN: Final = frozenset(f"{TLA} {OF_THE_SPECIFICATION}".split())
ALSO_TAKEN: Final = re.compile("limit_|WF_|SF_")
INVARIANTS: Final = ("TypeOK", "Total", "Moves")
PROPERTIES: Final = ("Pays", "OnlySentIsInFlight", "Absorbs", "Terminates")

HEAD: Final = """\
(* The machine '{name}' as a TLA+ specification.

   To check it:   java -cp tla2tools.jar tlc2.TLC {file}.tla     with this as {file}.cfg:

{configuration}

   A step is one event: any that may come where the machine stands, with any facts. Of its rows the
   first whose guard holds is taken. Nothing is known of budgets: what ends the machine for want of
   one
   may come in any rung, so all that is checked here holds for every budget."""


def specification(table: Table, limits: Mapping[str, int | None] | None = None) -> str:
    """Write a table as a TLA+ specification.

    Arguments:
        limits: the limit of each counter; by default as the rungs declare it, and one fallback.
    """
    return _Specification(table, limits_of(table, limits)).text()


def configuration(table: Table, limits: Mapping[str, int | None] | None = None) -> str:
    """Write what TLC is to check of the specification, and with which limits.

    Arguments:
        limits: the limit of each counter; by default as the rungs declare it, and one fallback.
    """
    return "\n".join([*_Specification(table, limits_of(table, limits)).configuration(), ""])


class _Specification:
    def __init__(self, table: Table, limits: dict[str, int]) -> None:
        self.table = table
        self.limits = limits
        self.used = Used(table)
        self.names = Names(lambda name: name in TAKEN or ALSO_TAKEN.match(name) is not None)
        named = (
            ("counter", table.counters),
            ("event", table.events),
            ("fact", self.used.derived),
            ("guard", [guard.name for guard in self.used.guards]),
            (
                "effect",
                [effect.name for effect in self.used.effects if effect.spends or effect.refills],
            ),
        )
        for kind, names in named:
            for name in names:
                self.names.of(kind, name)
        self.module = self.names.of("machine", table.name)

    def text(self) -> str:
        """Write all of it."""
        parts = [
            *self.head(),
            *self.declared(),
            *self.words(),
            *self.behaviour(),
            *self.properties(),
        ]
        title = f" MODULE {self.module} "
        return "\n".join([title.center(100, "-"), *parts, "=" * 100, ""])

    def configuration(self) -> Iterator[str]:
        """Write what TLC is told."""
        yield "SPECIFICATION Spec"
        yield "CONSTANTS"
        yield from (
            f"  limit_{self.counter(name)} = {self.limits[name]}" for name in self.table.counters
        )
        yield f"INVARIANTS {' '.join(INVARIANTS)}"
        yield f"PROPERTIES {' '.join(PROPERTIES)}"

    def counter(self, name: str) -> str:
        return self.names.of("counter", name)

    # what is declared

    def head(self) -> Iterator[str]:
        told = "\n".join(f"     {line}" for line in self.configuration())
        yield HEAD.format(name=plain(self.table.name), file=self.module, configuration=told)
        renamed = [
            f"     {given}: the {kind} '{plain(name)}'"
            for kind, name, given in self.names.renamed()
        ]
        if renamed:
            yield from ("", "   Names that could not stay as they are:", *renamed)
        yield "*)"

    def declared(self) -> Iterator[str]:
        table = self.table
        yield "EXTENDS Integers"
        yield ""
        limits = [f"limit_{self.counter(name)}" for name in table.counters]
        yield from (
            "\\* How often each rung may be taken.",
            f"CONSTANTS {folded(limits, ' ' * 10)}",
            "",
        )
        yield from ("VARIABLES state, spent", "vars == <<state, spent>>", "")
        yield f"Rungs == {{{folded(map(_text, table.rungs), ' ' * 4)}}}"
        yield f"Hub == {_text(table.hub)}"
        yield f"Outcomes == {{{folded(map(_text, table.outcomes), ' ' * 4)}}}"
        yield 'NoRow == "no row is taken"'
        fields = [f"{self.counter(name)} |-> limit_{self.counter(name)}" for name in table.counters]
        yield f"Limit == [{folded(fields, ' ' * 4)}]"
        yield "Counters == DOMAIN Limit"
        yield ""
        yield "HasLeft(counter) == spent[counter] < Limit[counter]"
        yield "Start == [counter \\in Counters |-> 0]"
        yield "Go(target, after) == state' = target /\\ spent' = after"
        yield "End(target) == Go(target, Start)  \\* with what a run ends makes no difference"

    # the words of the table

    def words(self) -> Iterator[str]:
        yield from ("", "\\* The facts. A reply can have any of these:")
        yield from (
            f"\\*   {_text(name)}: {plain(fact.says)}" for name, fact in self.used.found.items()
        )
        if self.used.derived:
            yield "\\* and the others follow from them."
        for name, fact in self.used.derived.items():
            yield (
                f"{self.names.of('fact', name)}(facts) == {self.follows(fact)}  \\* "
                f"{plain(fact.says)}"
            )
        yield from ("", "\\* The guards.")
        for guard in self.used.guards:
            given = "(facts)" if facts_of(guard) else ""
            yield f"{self.names.of('guard', guard.name)}{given} == {self.tested(guard)}"
        yield from ("", "\\* The effects: what is spent afterwards.")
        for effect in self.used.effects:
            if effect.spends or effect.refills:
                name = self.names.of("effect", effect.name)
                yield f"{name}{'(facts)' if effect.refills_on else ''} == {self.counted(effect)}"

    def holds(self, name: str) -> str:
        fact = self.table.fact(name)
        return (
            f"{self.names.of('fact', name)}(facts)"
            if fact.is_derived
            else f"{_text(name)} \\in facts"
        )

    def lacks(self, name: str) -> str:
        fact = self.table.fact(name)
        return (
            f"~{self.names.of('fact', name)}(facts)"
            if fact.is_derived
            else f"{_text(name)} \\notin facts"
        )

    def follows(self, fact: Fact) -> str:
        return " \\/ ".join([*map(self.holds, fact.any_holds), *map(self.lacks, fact.any_lacks)])

    def tested(self, guard: Guard) -> str:
        left = [f"HasLeft({_text(self.counter(guard.counter))})"] if guard.counter else []
        wants = [*left, *map(self.holds, guard.holds), *map(self.lacks, guard.lacks)]
        return folded(wants, " " * 4, " /\\ ") or "TRUE"

    def counted(self, effect: Effect) -> str:
        if_found = f"IF {self.holds(effect.refills_on)} THEN 0 ELSE @" if effect.refills_on else "0"
        changes = [f"!.{self.counter(effect.spends)} = @ + 1"] if effect.spends else []
        changes += [f"!.{self.counter(name)} = {if_found}" for name in effect.refills]
        return f"[spent EXCEPT {folded(changes, ' ' * 4)}]"

    # what may happen

    def behaviour(self) -> Iterator[str]:
        table = self.table
        yield from ("", f"Init == state = {_text(table.start)} /\\ spent = Start")
        by_event: dict[str, list[DecisionList]] = {}
        for decision in self.used.decisions:
            by_event.setdefault(decision.event, []).append(decision)
        for event, decisions in by_event.items():
            says = table.says(event)
            yield ""
            if says != event:
                yield f"\\* {plain(says)}"
            yield f"{self.names.of('event', event)} =="
            for decision in decisions:
                yield from self.decision(decision)
        steps = folded(
            [*(self.names.of("event", event) for event in by_event), "Over"], " " * 5, " \\/ "
        )
        yield ""
        yield (
            "\\* So that TLC finds a machine that stands still before it has come to an "
            "outcome, and no other."
        )
        yield "Over == state \\in Outcomes /\\ UNCHANGED vars"
        yield ""
        yield f"Next == {steps}"
        yield "Spec == Init /\\ [][Next]_vars /\\ WF_vars(Next)"

    def decision(self, decision: DecisionList) -> Iterator[str]:
        """Write what an event leads to, a line for each row."""
        rows = [line.row for line in decision.lines]
        yield f"  \\/ /\\ {self.where(decision.sources)}"
        facts = [name for name in self.looked_at(rows) if not self.table.fact(name).is_derived]
        if facts:
            yield f"     /\\ \\E facts \\in SUBSET {{{folded(map(_text, facts), ' ' * 30)}}} :"
        indent = " " * 10 if facts else "     /\\ "
        for place, row in enumerate(rows):
            before = "ELSE " if place else ""
            if row.guard is None:
                yield f"{indent}{before}{self.go(row)}"
            else:
                guard = (
                    self.holds(row.guard) if row.guard in self.used.facts else self.guard(row.guard)
                )
                yield f"{indent}{before}IF {guard} THEN {self.go(row)}"
            indent = " " * 10
        if rows[-1].guard is not None:
            yield f"{indent}ELSE Go(NoRow, spent)"

    def where(self, sources: Iterable[str]) -> str:
        sources = set(sources)
        rungs = set(self.table.rungs)
        if sources == {self.table.hub}:
            return "state = Hub"
        if sources == rungs:
            return "state \\in Rungs"
        if sources == {*rungs, self.table.hub}:
            return "state \\in Rungs \\union {Hub}"
        if sources < rungs and len(rungs - sources) < len(sources):
            return f"state \\in Rungs \\ {{{', '.join(map(_text, sorted(rungs - sources)))}}}"
        return f"state \\in {{{', '.join(map(_text, sorted(sources)))}}}"

    def looked_at(self, rows: Iterable[Row]) -> dict[str, Fact]:
        """Return the facts on which it depends which row is taken, and what that counts."""
        names = [name for row in rows for name in facts_of(self.table.guard(row.guard))]
        names += [on for row in rows if (on := self.table.effect(row.effect).refills_on)]
        return followed(self.table, names)

    def guard(self, name: str) -> str:
        guard = self.table.guard(name)
        return self.names.of("guard", guard.name) + ("(facts)" if facts_of(guard) else "")

    def go(self, row: Row) -> str:
        effect = self.table.effect(row.effect)
        if row.target in self.table.outcomes:
            return f"End({_text(row.target)})"
        name = self.names.of("effect", effect.name)
        given = "(facts)" if effect.refills_on else ""
        after = f"{name}{given}" if effect.spends or effect.refills else "spent"
        return f"Go({_text(row.target)}, {after})"

    # what is claimed

    def properties(self) -> Iterator[str]:
        table = self.table
        yield from ("", "\\* No counter leaves its limits, and each event that may come has a row.")
        yield "TypeOK == /\\ state \\in Rungs \\union {Hub, NoRow} \\union Outcomes"
        yield "          /\\ \\A counter \\in Counters : spent[counter] \\in 0..Limit[counter]"
        yield "Total == state # NoRow"
        yield from (
            "",
            "\\* What is left, by rank, and last whether something waits to be sent: every step "
            "lowers it.",
        )
        left = [self.left(group) for group in table.ranks]
        yield (
            "Variant == <<"
            + ",\n             ".join([*left, "IF state \\in Rungs THEN 1 ELSE 0"])
            + ">>"
        )
        yield "Less(new, old) == \\E digit \\in DOMAIN old :"
        yield (
            "                    new[digit] < old[digit] /\\ \\A above \\in 1..(digit - 1) "
            ": new[above] = old[above]"
        )
        yield "\\* A step that changes nothing is none to TLA+; such a one would be no payment."
        yield "Moves == state \\in Outcomes \\/ ~ENABLED (Next /\\ UNCHANGED vars)"
        yield "Pays == [][state' \\in Outcomes \\/ Less(Variant', Variant)]_vars"
        yield from ("", "\\* Only what was sent is in flight.")
        yield "OnlySentIsInFlight == [][state' = Hub => state \\in Rungs]_vars"
        yield from ("", "\\* Nothing leaves an outcome, and every run comes to one.")
        yield "Absorbs == [][state \\notin Outcomes]_vars"
        yield "Terminates == <>(state \\in Outcomes)"

    def left(self, group: Iterable[str]) -> str:
        return folded(
            [f"(Limit.{self.counter(name)} - spent.{self.counter(name)})" for name in group],
            " " * 15,
            " + ",
        )


def _text(name: str) -> str:
    return '"' + plain(name).replace("\\", "\\\\").replace('"', '\\"') + '"'
