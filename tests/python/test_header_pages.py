"""Pages of the C and C++ interfaces, which the site makes of the public headers."""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import header_pages  # noqa: E402

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
