"""`python -m gex.diff A B`, the same as `gex diff A B`."""

from gex.debug.command_line import run

if __name__ == "__main__":
    run("diff")
