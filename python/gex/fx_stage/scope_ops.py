"""The operators of namespace `npugraph_ex` that mark stretches of a graph.

Custom passes insert them and models may call them. They compute nothing: a stretch of a graph on
another stream, or under another core limit, has the values that it has anywhere else.
"""

from __future__ import annotations

import torch
from torch.fx.node import has_side_effect

NAMESPACE = "npugraph_ex"
_SCHEMAS = (
    "scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()",
    "scope_exit(bool need_execute=False) -> ()",
    "record(*, Device? device=None) -> Tensor",
    "wait(Tensor[] x) -> ()",
    "super_kernel_scope_begin(str? scope_name=None) -> ()",
    "super_kernel_scope_end(str? scope_name=None) -> ()",
)

_library = torch.library.Library(NAMESPACE, "FRAGMENT")
for _schema in _SCHEMAS:
    _library.define(_schema)


def _record(*, device: torch.device | None = None) -> torch.Tensor:
    return torch.empty(0, device=device)


def _nothing(*_: object, **__: object) -> None:
    pass


for _schema in _SCHEMAS:
    _name = _schema.partition("(")[0]
    _library.impl(_name, _record if _name == "record" else _nothing, "CompositeExplicitAutograd")

_ops = torch.ops.npugraph_ex
SCOPE_ENTER = _ops.scope_enter.default
SCOPE_EXIT = _ops.scope_exit.default
RECORD = _ops.record.default
WAIT = _ops.wait.default
SUPER_KERNEL_BEGIN = _ops.super_kernel_scope_begin.default
SUPER_KERNEL_END = _ops.super_kernel_scope_end.default

# What the importer takes as marks and not as computations.
MARKS = {SCOPE_ENTER, SCOPE_EXIT, RECORD, WAIT, SUPER_KERNEL_BEGIN, SUPER_KERNEL_END}
for _mark in MARKS:
    has_side_effect(_mark)
