"""`python -m gex`, and `gex` where a wheel is installed: the program that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gex


def main() -> None:
    # An editable install has two folders: the sources, and what was built.
    programs = [Path(folder) / "bin" / "gex" for folder in gex.__path__]
    program = next((path for path in programs if path.exists()), None)
    if program is None:
        sys.exit(f"gex: there is no {programs[0]}; build the target gex_tool, or install the wheel")
    os.environ.setdefault("GEX_PYTHON", sys.executable)  # for the commands that are Python
    os.execv(program, ["gex", *sys.argv[1:]])


if __name__ == "__main__":
    main()
