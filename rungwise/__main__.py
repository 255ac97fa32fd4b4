"""Run the command line: `python -m rungwise`, and the command `rungwise`."""

from rungwise.adapters.cli.command import main

if __name__ == "__main__":
    main(prog_name="rungwise")
