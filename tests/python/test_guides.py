"""The pages that say how to extend gex show code that is compiled and run by tests/guide."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = {"add_an_op.md": "op", "add_a_pass.md": "pass", "add_a_kernel.md": "kernel"}


def blocks(page: pathlib.Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_example_is_in_the_test_that_builds_it(page: str) -> None:
    source = (ROOT / "tests" / "guide" / f"{PAGES[page]}_test.cpp").read_text()
    examples = blocks(ROOT / "docs" / page, "cpp")
    assert examples
    for example in examples:
        assert example in source, f"docs/{page} and tests/guide differ:\n{example}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_pages_name_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`((?:src|tests|bench|docs)/[\w./]+\.(?:cpp|hpp|md|py))`", text)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_contributing_leads_to_the_pages() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for page in PAGES:
        assert f"docs/{page}" in text
