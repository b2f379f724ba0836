"""Installs the shim in spawned child processes before they import the main script."""

from __future__ import annotations

import functools
import multiprocessing.spawn
import os
import runpy
from typing import Any

_MAIN = "GEX_NPU_SPAWNED_MAIN"
_THIS_FILE = os.path.abspath(__file__)


def run_children_with_shim() -> None:
    """Makes multiprocessing's children import this file as their main module."""
    original = multiprocessing.spawn.get_preparation_data

    @functools.wraps(original)
    def get_preparation_data(name: str) -> dict[str, Any]:
        data = original(name)
        main = data.get("init_main_from_path")
        if main is not None:
            os.environ[_MAIN] = main
            data["init_main_from_path"] = _THIS_FILE
        return data

    multiprocessing.spawn.get_preparation_data = get_preparation_data


def _run_as_child() -> dict[str, Any]:
    from gex.npu.installation import install

    install()
    run_children_with_shim()
    return runpy.run_path(os.environ[_MAIN], run_name="__mp_main__")


if __name__ == "__mp_main__":
    globals().update(_run_as_child())
