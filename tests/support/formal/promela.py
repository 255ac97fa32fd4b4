"""A table as a model for SPIN, in Promela: what its certificate says is proved once more, by
another tool.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rungwise.fsm.diagram.model import DecisionList
from rungwise.fsm.engine.machine.build import COUNT_ATTEMPT
from rungwise.fsm.engine.machine.declare import Effect, Fact, Guard
from rungwise.fsm.engine.machine.table import Table
from support.formal.shared import Names, Used, folded, limits_of, most_attempts, plain

PROMELA: Final = """
active always assert atomic bit bool break byte c_code c_decl c_expr c_state c_track chan cond_expr
const d_proctype
d_step do else empty enabled end eval eventually false fi for full get_priority goto hidden if
implies in init inline
int len local ltl mtype nempty never next nfull notrace np_ od of pc_value pid print printf printm
priority proctype
progress provided release return run select set_priority short show skip stronguntil strong timeout
trace true typedef
unless unsigned until weak weakuntil xr xs accept
"""
IN_C: Final = """
asm auto case char continue default double enum extern float long now register restrict signed
sizeof static struct
switch typeof uchar uint union void volatile while linux unix i386
"""
OF_THE_MODEL: Final = """
state holds attempts choose nothing ends stepped fact guard effect target where was_waiting
is_waiting is_rung is_over
is_less is_within_limits
"""
TAKEN: Final = frozenset(f"{PROMELA} {IN_C} {OF_THE_MODEL}".split())
"""The words of the language, of C, where each variable becomes the field of a struct, and of every
model.
"""

ALSO_TAKEN: Final = re.compile(
    r"find_|LIMIT_|(was|left)_\d|[A-Z0-9_]+$|(errno|stdin|stdout|stderr)$|(s[ait]|sigev)_"
)
LARGEST_SHORT: Final = 32_767

HEAD: Final = """\
/* The machine '{name}' as a model for SPIN.

   To prove it:          spin -a {file} && cc -O2 -o pan pan.c && ./pan -a -m100000
   With other limits:    spin -a -DLIMIT_...=1 {file}, and so on
{worst}
   One round of the loop is one event: any that may come where the machine stands. Its rows are
   tried
   from the top, and the first whose guard holds is taken. A fact is chosen freely when a guard
   first
   looks at it, and stays so for the rest of that event. Nothing is known of budgets: what ends the
   machine for want of one may come in any rung, so all that is proved here holds for every
   budget."""

WORST: Final = """\
   The worst case:       spin -a -DMOST_ATTEMPTS={most} {file} finds no error,
   -DMOST_ATTEMPTS={less} finds a path
"""

WORDS: Final = """
/* A fact that no guard has looked at can be either way. */
inline choose(fact) { if :: fact == UNKNOWN -> if :: fact = YES :: fact = NO fi :: else fi }

#define NEEDS(fact)     if :: holds -> find_##fact(); holds = (fact == YES) :: else fi
#define NEEDS_NO(fact)  if :: holds -> find_##fact(); holds = (fact == NO) :: else fi
#define FACT(fact)      holds = true; NEEDS(fact)
#define ROW(guard, effect, target)  guard; if :: holds -> effect; state = target; goto stepped :: else fi;
#define LAST(effect, target)        effect; state = target; goto stepped

#ifdef MOST_ATTEMPTS
#define COUNT            attempts++
#define CHECK_ATTEMPTS   assert(attempts <= MOST_ATTEMPTS)
#define FORGET_ATTEMPTS  attempts = 0
#else
#define COUNT            skip
#define CHECK_ATTEMPTS   skip
#define FORGET_ATTEMPTS  skip
#endif
"""  # noqa: E501


def model(table: Table, limits: Mapping[str, int | None] | None = None) -> str:
    """Write a table as a model for SPIN.

    Arguments:
        limits: the limit of each counter; by default as the rungs declare it, and one fallback.
    """
    return _Model(table, limits_of(table, limits)).text()


class _Model:
    def __init__(self, table: Table, limits: dict[str, int]) -> None:
        self.table = table
        self.limits = limits
        self.used = Used(table)
        self.names = Names(lambda name: name in TAKEN or ALSO_TAKEN.match(name) is not None)
        self.most = most_attempts(table, limits)
        self.ranks = range(len(table.ranks))
        for kind, names in (
            ("state", table.states),
            ("counter", table.counters),
            ("fact", self.used.facts),
        ):
            for name in names:
                self.names.of(kind, name)
        self.machine = self.names.of("machine", table.name)

    def text(self) -> str:
        """Write all of it."""
        parts = [
            *self.constants(),
            *self.variables(),
            *self.properties(),
            *self.words(),
            *self.process(),
        ]
        return "\n".join([*self.head(), "", *parts, ""])

    # names

    def state(self, name: str) -> str:
        return self.names.of("state", name)

    def counter(self, name: str) -> str:
        return self.names.of("counter", name)

    def fact(self, name: str) -> str:
        return self.names.of("fact", name)

    def has_left(self, counter: str) -> str:
        return f"{self.counter(counter)} < LIMIT_{self.counter(counter)}"

    def among(self, states: Iterable[str]) -> list[str]:
        return [f"state == {self.state(name)}" for name in states]

    # what is declared

    def head(self) -> Iterator[str]:
        file = f"{self.machine}.pml"
        worst = (
            "" if self.most is None else WORST.format(file=file, most=self.most, less=self.most - 1)
        )
        yield HEAD.format(name=plain(self.table.name), file=file, worst=worst)
        renamed = [
            f"     {given}: the {kind} {plain(name)!r}"
            for kind, name, given in self.names.renamed()
        ]
        if renamed:
            yield from ("", "   Names that could not stay as they are:", *renamed)
        yield "*/"

    def constants(self) -> Iterator[str]:
        yield "/* How often each rung may be taken. */"
        for name in self.table.counters:
            limit = f"LIMIT_{self.counter(name)}"
            yield from (f"#ifndef {limit}", f"#define {limit} {self.limits[name]}", "#endif")

    def variables(self) -> Iterator[str]:
        yield ""
        yield "/* Where the machine stands, and what is spent. */"
        yield f"mtype = {{ {folded(map(self.state, self.table.states), ' ' * 10)} }}"
        yield f"mtype state = {self.state(self.table.start)}"
        for name in self.table.counters:
            yield f"{_kind(self.limits[name])} {self.counter(name)}"
        yield from (
            "#ifdef MOST_ATTEMPTS",
            "int attempts  /* how often something was sent */",
            "#endif",
        )
        yield ""
        yield "/* What is found of a reply. */"
        yield from ("#define UNKNOWN 0", "#define NO 1", "#define YES 2")
        yield from (f"byte {self.fact(name)}" for name in self.used.facts)
        yield "bool holds  /* whether the guard does that was tried last */"

    def properties(self) -> Iterator[str]:
        yield ""
        yield (
            "/* What is left, by rank: these lines, read as digits of one number, fall with "
            "every step. */"
        )
        for place, group in enumerate(self.table.ranks):
            left = [f"LIMIT_{self.counter(name)} - {self.counter(name)}" for name in group]
            yield from (_defined(f"left_{place}", left, " + "), f"int was_{place}")
        yield from ("#define is_waiting (is_rung -> 1 : 0)  /* to be sent */", "bit was_waiting")
        falls = "is_waiting < was_waiting"
        for place in reversed(self.ranks):
            falls = (
                f"left_{place} < was_{place} || (left_{place} == was_{place} && ( \\\n    "
                f"    {falls}))"
            )
        yield f"#define is_less ({falls})"
        yield ""
        yield _defined("is_rung", self.among(self.table.rungs), " || ")
        yield _defined("is_over", self.among(self.table.outcomes), " || ")
        yield _defined(
            "is_within_limits",
            [self.has_left(each).replace("<", "<=") for each in self.table.counters],
            " && ",
        )
        yield ""
        yield "/* Every run comes to an outcome, and stays there. */"
        yield "ltl ends { <> [] is_over }"

    # the words of the table

    def words(self) -> Iterator[str]:
        yield from WORDS.splitlines()
        yield from ("", "/* The facts. */")
        for name, fact in self.used.facts.items():
            yield f"/* {plain(fact.says)} */"
            yield f"inline find_{self.fact(name)}() {{ {self.found(fact)} }}"
        yield from (
            "",
            "/* The guards: the counter of which a unit must be left, and the facts. */",
        )
        for guard in self.used.guards:
            yield f"inline {self.names.of('guard', guard.name)}() {{ {self.tested(guard)} }}"
        yield from ("", "/* The effects: what is spent, and what is given back. */")
        yield "inline nothing() { skip }"
        for effect in self.used.effects:
            yield f"inline {self.names.of('effect', effect.name)}() {{ {self.counted(effect)} }}"

    def found(self, fact: Fact) -> str:
        name = self.fact(fact.name)
        others = (*fact.any_holds, *fact.any_lacks)
        if not others:
            return f"choose({name})"
        ways = [f"{self.fact(each)} == YES" for each in fact.any_holds]
        ways += [f"{self.fact(each)} == NO" for each in fact.any_lacks]
        finds = [f"find_{self.fact(each)}()" for each in others]
        return folded([*finds, f"{name} = ({' || '.join(ways)} -> YES : NO)"], " " * 4, "; ")

    def tested(self, guard: Guard) -> str:
        first = f"holds = ({self.has_left(guard.counter)})" if guard.counter else "holds = true"
        wants = [f"NEEDS({self.fact(each)})" for each in guard.holds]
        wants += [f"NEEDS_NO({self.fact(each)})" for each in guard.lacks]
        return folded([first, *wants], " " * 4, "; ")

    def counted(self, effect: Effect) -> str:
        if effect == COUNT_ATTEMPT:
            return "COUNT"
        steps = [f"{self.counter(effect.spends)}++"] if effect.spends else []
        refills = "; ".join(f"{self.counter(each)} = 0" for each in effect.refills)
        if refills and effect.refills_on:
            fact = self.fact(effect.refills_on)
            refills = f"find_{fact}();\n    if :: {fact} == YES -> {refills} :: else fi"
        if refills:
            steps.append(refills)
        return "; ".join(steps) or "skip"

    # what runs

    def process(self) -> Iterator[str]:
        saved = "; ".join(
            [*(f"was_{place} = left_{place}" for place in self.ranks), "was_waiting = is_waiting"]
        )
        forgotten = [*(f"{self.fact(each)} = UNKNOWN" for each in self.used.facts), "holds = false"]
        forgotten += [*(f"was_{place} = 0" for place in self.ranks), "was_waiting = 0"]
        ended = [f"{self.counter(name)} = 0" for name in self.table.counters]
        yield from ("", f"#define IN(where) (where) -> d_step {{ assert(!is_over); {saved} }};", "")
        yield f"active proctype {self.machine}() {{"
        yield from (
            "end:  /* where no event can come, which must be in an outcome */",
            "  do",
            "  :: atomic {",
        )
        yield "     if"
        for decision in self.used.decisions:
            yield from self.decision(decision)
        yield "     fi;"
        yield "stepped:"
        yield "     skip;"
        yield "     d_step {"
        yield "       assert(is_within_limits);"
        yield "       assert(is_over || is_less);"
        hub = self.state(self.table.hub)
        yield (
            f"       assert(state != {hub} || was_waiting);  /* in flight is only what was sent */"
        )
        yield "       CHECK_ATTEMPTS;"
        yield "       if"
        yield "       :: is_over ->  /* with what a run ends makes no difference */"
        yield f"          {folded(ended, ' ' * 10, '; ')}; FORGET_ATTEMPTS"
        yield "       :: else"
        yield "       fi;"
        yield f"       {folded(forgotten, ' ' * 7, '; ')}"
        yield from ("     }", "     }", "  od", "}")

    def where(self, sources: Sequence[str]) -> str:
        missing = [name for name in self.table.rungs if name not in sources]
        if self.table.hub in sources and not missing and len(sources) == len(self.table.rungs) + 1:
            return "!is_over"
        if set(sources) <= set(self.table.rungs) and len(missing) < len(sources):
            return " && ".join(["is_rung", *(f"state != {self.state(name)}" for name in missing)])
        return folded(self.among(sources), " " * 11, " || ")

    def decision(self, decision: DecisionList) -> Iterator[str]:
        """Write what an event leads to, a line for each row."""
        says = self.table.says(decision.event)
        yield (
            f"     /* {plain(decision.event)}"
            f"{f': {plain(says)}' if says != decision.event else ''} */"
        )
        yield f"     :: IN({self.where(decision.sources)})"
        for line in decision.lines:
            row = line.row
            effect = f"{self.names.of('effect', row.effect)}()" if row.effect else "nothing()"
            if row.guard is None:
                yield f"        LAST({effect}, {self.state(row.target)})"
                continue
            is_fact = row.guard in self.used.facts
            guard = (
                f"FACT({self.fact(row.guard)})"
                if is_fact
                else f"{self.names.of('guard', row.guard)}()"
            )
            yield f"        ROW({guard}, {effect}, {self.state(row.target)})"
        if decision.lines[-1].row.guard is not None:
            yield "        assert(false)  /* no row is taken */"


def _kind(most: int) -> str:
    return "short" if most < LARGEST_SHORT else "int"


def _defined(name: str, items: Iterable[str], between: str) -> str:
    return f"#define {name} ({folded(items, ' ' * 8, between)})".replace("\n", " \\\n")
