"""Run the command line: `python -m rungwise`."""

import sys

from rungwise import ShadowedPackage, ours

if __name__ == "__main__":
    try:
        main = ours("adapters.cli").main
    except ShadowedPackage as error:
        sys.exit(f"rungwise: {error}")
    main(prog_name="rungwise")
