"""`python -m gex`, and `gex` if a wheel is installed: runs the binary inside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gex


def main() -> None:
    # An editable install has two folders: the sources and the build output.
    programs = [Path(folder) / "bin" / "gex" for folder in gex.__path__]
    program = next((path for path in programs if path.exists()), None)
    if program is None:
        sys.exit(
            f"gex: {programs[0]} does not exist; build the target gex_tool, or install the wheel"
        )
    os.environ.setdefault("GEX_PYTHON", sys.executable)  # for commands implemented in Python
    os.execv(program, ["gex", *sys.argv[1:]])


if __name__ == "__main__":
    main()
