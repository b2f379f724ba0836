"""`python -m gex.bisect script.py`, the same as `gex bisect script.py`."""

from gex.debug.command_line import run

if __name__ == "__main__":
    run("bisect")
