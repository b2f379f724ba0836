"""GEX_PASS_PATH names files of passes: they are there before anything is compiled."""

from __future__ import annotations

import os


def load_named_passes() -> None:
    if os.environ.get("GEX_PASS_PATH"):
        from gex.passes import load_environment

        load_environment()
