"""Pages of the C and C++ interfaces, which the site makes of the public headers."""

from __future__ import annotations

import importlib
import pathlib
import re
import sys

from gex.es import ops as es_ops

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import header_pages  # noqa: E402
import python_pages  # noqa: E402

HEADER = """#pragma once
// What the header is for:
//   use(it);

#define LIMIT 3
namespace gex {
/* --- parts --- */
// Adds.
inline int add(int a, int b = {}) {
  return a + b;  // not shown
}
class Thing {
 public:
  // A number.
  int number() const { return number_; }

 private:
  int number_ = 0;
};
namespace detail {
int hidden();
}
}  // namespace gex
"""


def test_bodies_and_private_parts_are_not_shown() -> None:
    items = header_pages.items_of(HEADER)
    codes = [item.code for item in items if item.code]
    assert codes[:2] == ["#define LIMIT 3", "inline int add(int a, int b = {});"]
    (thing,) = codes[2:]
    assert "int number() const;" in thing and "// A number." in thing
    assert "number_" not in "".join(codes) and "hidden" not in "".join(codes)
    assert [item.section for item in items if item.section] == ["parts"]
    assert "use(it)" in items[0].comment and items[3].comment == "// Adds."


def test_lists_and_code_in_comments_are_separate_from_text() -> None:
    comment = "/* Rules:\n * - one,\n *   still one\n * - two\n * Text:\n *   code();\n * End. */"
    assert header_pages._prose(comment).split("\n\n") == [
        "Rules:",
        "- one,\n  still one\n- two",
        "Text:",
        "      code();",
        "End.",
    ]


def test_every_function_of_the_c_interface_has_a_heading() -> None:
    page = header_pages.page(*header_pages.PAGES["c_reference.md"])
    text = (ROOT / "include/gex/gex.h").read_text() + (ROOT / "include/gex/session.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    functions = re.findall(r"^GEX_API\s[^;(=]*?(\w+)\(", text, re.M)
    assert len(functions) > 50
    assert [name for name in functions if f"#### `{name}`" not in page] == []


def test_every_public_header_is_on_a_page() -> None:
    listed = {name for _, headers in header_pages.PAGES.values() for name in headers}
    include = ROOT / "include" / "gex"
    found = {str(p.relative_to(include)) for p in include.rglob("*.h*")}
    only_includes = {"es.hpp"}
    assert {name for name in found if not name.startswith("compat/")} - only_includes == listed


def test_every_public_name_of_python_is_on_a_page() -> None:
    entries = python_pages.page().split("\n")
    for module in python_pages.MODULES:
        public = set(importlib.import_module(module).__all__)
        if module == "gex.es":
            public -= set(es_ops.__all__)
        expected = {f"{module}.{name}" for name in public} - python_pages.SECTIONS
        assert set(python_pages.names_of(module)) == expected
        assert [name for name in expected if f"      heading: {name}" not in entries] == []


def test_names_on_the_python_page_are_found_where_it_says() -> None:
    for module in python_pages.MODULES:
        package = importlib.import_module(module)
        for public, place in python_pages.names_of(module).items():
            if public in python_pages.ELSEWHERE:
                continue
            parent, _, name = place.rpartition(".")
            defined = getattr(importlib.import_module(parent), name)
            assert defined is getattr(package, public.rpartition(".")[2]), public
