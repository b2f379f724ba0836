"""One test of the onnx package's suite for backends, on the device."""

from __future__ import annotations

import functools
import unittest
import warnings
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")

import onnx.backend.test  # noqa: E402

from gex.onnx_backend import GexBackend  # noqa: E402
from test_onnx_backend import CATEGORIES, expected_failures  # noqa: E402


@functools.cache
def _items(device: str) -> dict[str, Any]:
    suite = onnx.backend.test.BackendTest(GexBackend, __name__)
    return {
        name: item
        for category in CATEGORIES
        for name, item in suite._test_items[f"{category}Model"].items()
        if name.endswith(f"_{device}")
    }


def units(device: str) -> list[str]:
    """Without the tests that fail on the CPU, which are listed with their reasons."""
    listed = {name.removesuffix("_cpu") for name in expected_failures()}
    return [name for name in _items(device) if name.removesuffix(f"_{device}") not in listed]


def make(arguments: list[str]) -> Callable[[str], dict[str, Any]]:
    """Arguments: device."""
    items = _items(arguments[0])

    def run(unit: str) -> dict[str, Any]:
        try:
            items[unit].func(None)
        except unittest.SkipTest as skipped:
            return {"outcome": "left out", "detail": str(skipped)}
        except AssertionError as wrong:
            return {"outcome": "wrong", "detail": str(wrong)[:2000]}
        return {"outcome": "right"}

    return run
