"""`python -m gex.bisect script.py`, which is also `gex bisect script.py`."""

from __future__ import annotations

import sys

from gex.debug.bisect import main

if __name__ == "__main__":
    sys.exit(main())
