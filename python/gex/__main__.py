"""`python -m gex`, and `gex` where a wheel is installed: the program that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "gex"
    if not program.exists():
        sys.exit(f"gex: there is no {program}; build the target gex_tool, or install the wheel")
    os.environ.setdefault("GEX_PYTHON", sys.executable)  # for the commands that are Python
    os.execv(program, ["gex", *sys.argv[1:]])


if __name__ == "__main__":
    main()
