"""Why a graph ends before its function does: what could not be traced, and the user's line."""

from __future__ import annotations

import re
import warnings

from torch.fx import GraphModule

from gex.errors import FallbackWarning

_OPERATOR = re.compile(r"unsupported operator: (\S+)")
_DETAIL = re.compile(r"Developer debug context: (.+)")
_told: set[tuple[str, str]] = set()


def end_of(gm: GraphModule) -> str | None:
    """A description; None for a graph that ends where its function returns."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    line = ""
    if reason.user_stack:
        last = reason.user_stack[-1]
        line = f"{last.filename}:{last.lineno}"
    operator = _OPERATOR.search(reason.reason)
    if operator is not None:
        _warn_about_operator(operator[1], line)
    detail = _DETAIL.search(reason.reason)
    what = reason.reason.strip().splitlines()[0] + (f" ({detail[1]})" if detail else "")
    return f"{line}: {what}" if line else what


def _warn_about_operator(operator: str, line: str) -> None:
    if (operator, line) not in _told:
        _told.add((operator, line))
        warnings.warn(
            f"{operator} at {line} can't be captured: it runs eagerly, between the graphs before "
            "and after it. Register its result types with torch.library.register_fake to make it "
            "a step of one graph",
            FallbackWarning,
            stacklevel=2,
        )
