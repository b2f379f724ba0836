"""Entry points of the commands implemented in Python: `python -m gex.bisect`, started by `gex
bisect`."""

from __future__ import annotations

import importlib
import sys


def run(command: str) -> None:
    """Runs `main` of gex.debug.<command> and exits."""
    try:
        module = importlib.import_module(f"gex.debug.{command}")
    except ModuleNotFoundError as problem:
        if str(problem.name).partition(".")[0] != "torch":
            raise
        sys.exit(
            f"gex {command}: {sys.executable} has no PyTorch; set GEX_PYTHON to a Python that has"
        )
    sys.exit(module.main())
