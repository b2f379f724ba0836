"""stubs.py FOLDER: writes the type stubs of the extension module gex._gex there.

From the signatures that the module states of itself; needs the built package in PYTHONPATH. The
stubs are part of the sources (python/gex/_gex), and a test compares them.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import sys

from nanobind.stubgen import StubGen

MODULES = {"gex._gex": "__init__.pyi", "gex._gex.es": "es.pyi", "gex._gex.passes": "passes.pyi"}
# C++ makes a Dim of an int by itself.
_DIM = re.compile(r"(def __(?:init|add|sub|mul|floordiv|mod)__\(self, arg: )(Dim|int)(, /\))")
# It calls itself a class of gex.es, which imports it from here.
_ERROR = "from gex.es import EsError as EsError\n"


def stub_of(name: str) -> str:
    # Some functions have a name that ends in an underscore, which the generator takes as private.
    generator = StubGen(
        importlib.import_module(name), include_docstrings=True, include_private=True
    )
    generator.put(importlib.import_module(name))
    lines = []
    for line in generator.get().splitlines():
        # What Python code gets back as any object is used as what it is.
        line = re.sub(r"-> object:", "-> Any:", line)
        line = re.sub(r"\bobject\b(?=[\],|)])", "Any", line)
        lines.append(_DIM.sub(r"\1Dim | int\3", line) if name == "gex._gex" else line)
    text = "\n".join(lines) + "\n"
    if "Any" in text and not re.search(r"import .*\bAny\b", text):
        text = re.sub(r"(?m)^(from|import) ", r"from typing import Any\n\1 ", text, count=1)
    if _ERROR in text:
        text = text.replace(_ERROR, "") + "\nclass EsError(UserError, ValueError): ...\n"
    return f"# Written by scripts/stubs.py.\n{text}"


def main(folder: str) -> None:
    for name, file in MODULES.items():
        pathlib.Path(folder, file).write_text(stub_of(name), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
