"""Run the command line as `python -m adapters`."""

from adapters.cli import main

if __name__ == "__main__":
    main()
