"""Public classes and functions are shown by their public name, wherever they are defined."""

from __future__ import annotations

import ast
import inspect
import pickle
import typing
from importlib import import_module
from types import FunctionType
from typing import Any

import attrs
import pytest

import rungwise
import rungwise.core
from rungwise.adapters.durable.import_paths import Modules
from rungwise.lazy import PUBLIC, homes_of
from support.command_line import printed_by
from support.imports import MODULES

NAMES = [(module, name) for module in PUBLIC for name in import_module(module).__all__]


def defined(module: str, name: str) -> Any:
    """Return what a public name stands for, if that is a class or a function."""
    value = getattr(import_module(module), name)
    return value if isinstance(value, type | FunctionType) else None


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_shows_where_it_is_public(module: str, name: str) -> None:
    value = defined(module, name)
    if value is None or typing.get_origin(value) is not None:
        return  # an instance, or another name for a type
    assert (value.__module__, value.__qualname__) == (module, name)
    assert pickle.loads(pickle.dumps(value)) is value
    if isinstance(value, type):
        assert repr(value) == f"<class '{module}.{name}'>"


def test_most_public_names_are_classes_and_functions() -> None:
    assert len([each for each in NAMES if defined(*each) is not None]) > 150


@pytest.mark.parametrize("module", PUBLIC)
def test_the_lists_are_read_as_python_reads_them(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    [listed] = [node.body for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in listed if isinstance(node, ast.ImportFrom)]
    assert homes_of(module) == {alias.name: each.module for each in imports for alias in each.names}


def test_a_pickle_is_read_by_a_process_that_has_imported_nothing_else() -> None:
    value = (rungwise.Usage(input_tokens=3), rungwise.core.Failure("server_error", status=503))
    data = pickle.dumps(value)
    assert b"rungwise.fsm" not in data
    script = (
        "import sys, pickle, rungwise; value = pickle.loads(bytes.fromhex(sys.argv[1])); "
        "print(value[0] == rungwise.Usage(input_tokens=3), value[1].status)"
    )
    assert printed_by(script, data.hex()) == "True 503\n"


def test_an_error_that_nobody_has_looked_up_is_shown_by_its_public_name() -> None:
    script = (
        "import traceback\n"
        "from rungwise import Client, OpenAIChat, Policy, Limits, Timeouts\n"
        "once = Policy(limits=Limits(retries=0), timeouts=Timeouts(connect=0.5))\n"
        "backend = OpenAIChat('m', base_url='http://127.0.0.1:9/v1', api_key='k')\n"
        "client = Client(backend, policy=once)\n"
        "for run in (client.call, client.turn):\n"
        "    try:\n"
        "        run('Where?')\n"
        "    except Exception:\n"
        "        print(traceback.format_exc().splitlines()[-1].partition(':')[0])\n"
    )
    assert printed_by(script) == "rungwise.Failed\nrungwise.TurnFailed\n"


def test_a_module_keeps_the_loader_that_python_has_for_it() -> None:
    script = (
        "import rungwise.fsm.values.usage as module, inspect\n"
        "print(type(module.__loader__).__name__, module.__spec__.loader is module.__loader__)\n"
        "print(inspect.getsource(module).count('class Usage'))\n"
        "print(inspect.getsource(module.Usage.__add__).strip().split('(')[0])"
    )
    assert printed_by(script) == "SourceFileLoader True\n1\ndef __add__\n"


def test_the_source_of_a_public_class_is_an_honest_error() -> None:
    with pytest.raises(OSError, match=r"source|class"):
        inspect.getsource(rungwise.Client)
    assert "def call" in inspect.getsource(rungwise.Client.call)


def test_annotations_mean_what_they_meant_where_they_were_written() -> None:
    fields = typing.get_type_hints(rungwise.Result)
    assert fields["usage"] is rungwise.Usage
    resolved = attrs.resolve_types(rungwise.core.Reply)
    assert attrs.fields_dict(resolved)["usage"].type is rungwise.Usage
    hints = typing.get_type_hints(rungwise.Client.__init__)
    assert hints["policy"] is rungwise.Policy


def test_a_durable_call_finds_a_public_class_by_its_public_name() -> None:
    modules = Modules(["rungwise"])
    assert modules.path_of(rungwise.Usage, "returns") == "rungwise:Usage"
    assert modules.found("rungwise:Usage", "returns") is rungwise.Usage
    # as databases of before have it
    assert modules.found("rungwise.fsm.values.usage:Usage", "returns") is rungwise.Usage
