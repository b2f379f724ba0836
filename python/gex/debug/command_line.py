"""Commands that are Python: `python -m gex.bisect` and the like, which `gex bisect` starts."""

from __future__ import annotations

import importlib
import sys


def run(command: str) -> None:
    """Runs `main` of gex.debug.<command> and ends the process."""
    try:
        module = importlib.import_module(f"gex.debug.{command}")
    except ModuleNotFoundError as problem:
        if str(problem.name).partition(".")[0] != "torch":
            raise
        sys.exit(
            f"gex {command}: {sys.executable} has no PyTorch; set GEX_PYTHON to a Python that has"
        )
    sys.exit(module.main())
