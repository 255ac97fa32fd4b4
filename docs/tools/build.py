"""Build the documentation site: `python -m docs.tools.build FOLDER [zensical | mkdocs]`, in the
checkout.

The pages, the pictures of diagrams/ and what is generated are gathered in one folder, and the tool
builds that. Its warnings are errors, and so is what `docs.tools.check` and `docs.tools.tree` find.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from docs.tools.check import faults_of
from docs.tools.machine.site import write_machine
from docs.tools.names import link_names
from docs.tools.tree import CHANGELOG, faults_of_tree, for_site, places_in_site
from rungwise.adapters.cli.command import main as rungwise_command

ROOT: Final = Path(__file__).parents[2]
COMMANDS: Final = "reference/commands.md"
COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
TOOLS: Final = {"zensical": ("build", "--strict", "--clean"), "mkdocs": ("build", "--strict")}


def gather(folder: Path) -> Path:
    """Write all that the site consists of to a folder, and return the configuration."""
    pages = folder / "pages"
    for path, there in places_in_site(ROOT).items():
        target = pages / there
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
        if target.suffix == ".md":
            text = COMMENT.sub("", for_site(target.read_text(encoding="utf-8"), path))
            target.write_text(text if path == CHANGELOG else link_names(text), encoding="utf-8")
    (pages / COMMANDS).write_text(link_names("\n".join(commands())), encoding="utf-8")
    shutil.copy(ROOT / "docs/mkdocs.yml", folder)
    return folder / "mkdocs.yml"


def commands() -> Iterator[str]:
    """Yield the page of the commands, line by line, from what each says of itself."""
    yield "# Commands\n\nEach command says this of itself with `--help`.\n"
    context = click.Context(
        rungwise_command, info_name="rungwise", max_content_width=100, terminal_width=100
    )
    for name in rungwise_command.list_commands(context):
        command = rungwise_command.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name, terminal_width=100)
        yield f"## rungwise {name}\n\n```text\n{command.get_help(inner)}\n```\n"


def build(target: Path, tool: str) -> list[str]:
    """Build the site, and return what is wrong with it.

    Raises:
        CalledProcessError: the tool has refused it, and said why.
    """
    with TemporaryDirectory() as folder:
        config = gather(Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NO_MKDOCS_2_WARNING": "1",
            "NO_COLOR": "1",
        }
        asked = [sys.executable, "-m", tool, *TOOLS[tool], "-f", str(config)]
        subprocess.run(asked, cwd=ROOT, env=environment, check=True)
        built = Path(folder) / "site"
        write_machine(built / "machine")
        faults = [*faults_of_tree(ROOT), *faults_of(built, ROOT)]
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    return faults


def main() -> int:
    """Build the site into the folder that was named."""
    target = Path(sys.argv[1])
    tool = "".join(sys.argv[2:3]) or "zensical"
    try:
        faults = build(target, tool)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(
        *(f"error: {fault}" for fault in faults),
        sep="\n",
        end="\n" if faults else "",
        file=sys.stderr,
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
