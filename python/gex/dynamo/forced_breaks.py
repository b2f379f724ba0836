"""BREAK_GRAPH_OP_LIST: operations at which Dynamo breaks the graph, for any backend."""

from __future__ import annotations

import difflib
import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch

from gex.compat.dynamo import disallow_in_graph
from gex.compat.indexing_breaks import break_at_indexing, has_slice

VARIABLE = "BREAK_GRAPH_OP_LIST"


def _break_at_function(function: Callable[..., Any]) -> Callable[[], None]:
    def install() -> None:
        disallow_in_graph(function)

    return install


def _break_at_indexing(function: Any, applies: Callable[[Any], bool]) -> Callable[[], None]:
    what = function.__name__

    def words() -> dict[str, Any]:
        return {
            "gb_type": f"{what} in {VARIABLE}",
            "context": "",
            "explanation": f"the environment variable {VARIABLE} requests a break here",
            "hints": [],
        }

    def install() -> None:
        break_at_indexing(function, applies, words)

    return install


BREAKS: dict[str, Callable[[], None]] = {
    "SLICE": _break_at_indexing(operator.getitem, has_slice),
    "SETITEM": _break_at_indexing(operator.setitem, lambda key: True),
    "NN.CONV3D": _break_at_function(torch.nn.functional.conv3d),
    "NN.LINEAR": _break_at_function(torch.nn.functional.linear),
}


@functools.cache
def install() -> None:
    """Reads the variable once per process. RuntimeError for an unknown name."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    for name in names:
        if name not in BREAKS:
            close = difflib.get_close_matches(name.upper(), BREAKS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise RuntimeError(f"{VARIABLE}: unknown name {name!r}{hint} Known: {list(BREAKS)}")
    for name in names:
        BREAKS[name]()
