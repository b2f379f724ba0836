"""Marks around parts of a graph.

Custom passes insert them and models may call them. They compute nothing: the values of a part do
not depend on its stream or core limit.
"""

from __future__ import annotations

import torch

from gex.fx_stage.mark_ops import define_mark


def _record(*, device: torch.device | None = None) -> torch.Tensor:
    return torch.empty(0, device=device)


SCOPE_ENTER = define_mark("scope_enter(str[] keys, str[] values, bool need_execute=False) -> ()")
SCOPE_EXIT = define_mark("scope_exit(bool need_execute=False) -> ()")
# Like scope_exit, with a unique number: PyTorch merges equal marks of a model.
SCOPE_LEAVE = define_mark("scope_leave(int mark) -> ()")
RECORD = define_mark("record(*, Device? device=None) -> Tensor", _record)
WAIT = define_mark("wait(Tensor[] x) -> ()")
SUPER_KERNEL_BEGIN = define_mark("super_kernel_scope_begin(str? scope_name=None) -> ()")
SUPER_KERNEL_END = define_mark("super_kernel_scope_end(str? scope_name=None) -> ()")

# Operators that the importer treats as marks, not as computations.
MARKS = {
    SCOPE_ENTER,
    SCOPE_EXIT,
    SCOPE_LEAVE,
    RECORD,
    WAIT,
    SUPER_KERNEL_BEGIN,
    SUPER_KERNEL_END,
}

# Keys of scope_enter.
STREAM_LABEL = "_user_stream_label"
AICORES = "_op_aicore_num"
VECTORCORES = "_op_vectorcore_num"
LIMITED_STREAM = (
    "_op_limited_stream"  # only nodes on that stream; without this key all nodes in the block
)
LEVEL = "_deterministic_level"
NUMBER = "_scope_number"  # distinguishes two equal scopes of a model
