"""Scopes around kernels that may be merged into a super kernel.

They are checked and have no other effect: `super_kernel_optimize` is for the whole graph.
"""

from __future__ import annotations

from gex.fx_stage import scope_ops


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Begins a part of the graph whose kernels may be merged into a super kernel."""
    scope_ops.SUPER_KERNEL_BEGIN(_named(scope_name))


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    scope_ops.SUPER_KERNEL_END(_named(scope_name))


def _named(scope_name: str | None) -> str | None:
    if scope_name is not None and not scope_name.strip():
        raise RuntimeError(f"the name of a super kernel scope must not be blank: {scope_name!r}")
    return scope_name
