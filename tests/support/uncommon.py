"""A table whose names and texts are reserved in the languages of the model checkers and in C."""

from rungwise import Fact, Rung
from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending

UNCOMMON_LIMITS = {"ints": 300, "chans": 2}

DO = Rung(
    "do",
    unit="int",
    holds="linux",
    lacks=("init", "SAFETY", "errno", "st_mtime"),
    says="one */ two\n#define three",
    limit=300,
)
RE = Rung("été", unit="chan", holds="state", refills="ints", refills_on="_")
UNCOMMON = build_table(
    name="proctype",
    start="active",
    hub="end",
    outcomes=("atomic", "ints", "holds"),
    rungs=(DO, RE),
    facts=[
        Fact(name, says="*/ (* no end")
        for name in ("linux", "SAFETY", "init", "state", "_", "errno", "st_mtime")
    ],
    ladders={
        "goto": (DO, RE, Ending("atomic")),
        "Next": (RE, Ending("atomic")),
        "if_": (RE, Ending("ints", holds="linux"), Ending("holds")),
    },
    everywhere={"break_": "holds"},
)
