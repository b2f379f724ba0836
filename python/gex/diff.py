"""`python -m gex.diff A B`, which is also `gex diff A B`."""

from __future__ import annotations

import sys

from gex.debug.diff import main

if __name__ == "__main__":
    sys.exit(main())
