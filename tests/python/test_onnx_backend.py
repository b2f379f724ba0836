"""The tests of the onnx package that need no download, and the list of those that fail."""

from __future__ import annotations

import functools
import pathlib
import unittest
import warnings

import pytest

with warnings.catch_warnings():
    # Making the expected values divides by zero on purpose.
    warnings.simplefilter("ignore")
    import onnx.backend.test

    from gex.onnx_backend import GexBackend

LIST = pathlib.Path(__file__).with_name("onnx_failures.txt")
CATEGORIES = ["Node", "Simple", "PyTorchConverted", "PyTorchOperator"]


def expected_failures() -> dict[str, str]:
    """Test name to reason: lines of `name: reason`."""
    failures = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            assert reason, f"{name} has no reason"
            failures[name] = reason
    return failures


@functools.cache
def suite() -> onnx.backend.test.BackendTest:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx.backend.test.BackendTest(GexBackend, __name__)


def outcome(test: object) -> str | None:
    """The error, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test(None)  # type: ignore[operator]
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("category", CATEGORIES)
def test_category(category: str) -> None:
    tests = suite()._test_items[f"{category}Model"]
    items = {name: item for name, item in tests.items() if name.endswith("_cpu")}
    assert items
    listed = expected_failures()
    failed = {name: why for name, item in items.items() if (why := outcome(item.func))}
    surprises = {name: why for name, why in failed.items() if name not in listed}
    must_fail = {name for name, reason in listed.items() if not reason.startswith("random: ")}
    passing = sorted(name for name in items if name in must_fail and name not in failed)
    assert not surprises, "\n".join(f"{name}: {why[:300]}" for name, why in surprises.items())
    assert not passing, f"listed as failing, but they pass: {passing}"


def test_list_names_tests() -> None:
    names = {name for items in suite()._test_items.values() for name in items}
    assert not sorted(set(expected_failures()) - names)


def test_rate() -> None:
    count = sum(
        name.endswith("_cpu")
        for category, items in suite()._test_items.items()
        if not category.startswith("Real")
        for name in items
    )
    assert len(expected_failures()) <= 0.02 * count
