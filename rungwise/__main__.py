"""Run the command line: `python -m rungwise`, and the command `rungwise`."""

import sys

from rungwise import ShadowedPackage, ours


def main() -> None:
    """Run a command and exit with its code."""
    try:
        command = ours("adapters.cli").main
    except ShadowedPackage as error:
        sys.exit(f"rungwise: {error}")
    command(prog_name="rungwise")


if __name__ == "__main__":
    main()
