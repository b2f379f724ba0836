"""Errors of the front end; the engine's own errors come from C++."""

from __future__ import annotations

from gex._gex import Error, InternalError, UserError

__all__ = [
    "BranchOnData",
    "CallNotAllowed",
    "Error",
    "FallbackWarning",
    "GraphNotSupported",
    "IndexOutOfRange",
    "InternalError",
    "UserError",
]


class CallNotAllowed(RuntimeError):
    """A node would run through PyTorch although `strict` forbids that."""

    def __init__(self, op: str, location: str, reason: str) -> None:
        where = location or "an unknown line"
        super().__init__(
            f"{op} at {where} would run as a call through PyTorch ({reason}); "
            "options={'strict': True} forbids calls. Rewrite that line or leave `strict` out."
        )


class GraphNotSupported(Exception):
    """The graph as a whole can't be imported, so it runs through PyTorch."""


class BranchOnData(RuntimeError):
    """A model that is compiled ahead of its calls branches on the contents of a tensor."""

    def __init__(self, where: str, line: str) -> None:
        super().__init__(
            f"{where}: `{line}` depends on the contents of a tensor, which are not known when the "
            "model is compiled; use torch.cond or torch.where"
        )


class FallbackWarning(UserWarning):
    """A graph, or more than a fifth of its ops, runs through PyTorch."""


class IndexOutOfRange(IndexError, RuntimeError):
    """An index is out of range. Eager mode raises either of the two base classes."""
