"""The versions of PyTorch that gex is tested with, and differences between them."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._functorch._aot_autograd import runtime_wrappers
from torch._higher_order_ops.invoke_subgraph import InvokeSubgraphHOP
from torch._subclasses import fake_impls
from torch.fx import GraphModule

TESTED = ("2.11", "2.13")

# The attribute of a tensor that tells a later graph which of its sizes are dynamic. Not guarded.
DYNAMIC_MARK = (
    "_dynamo_propagated_dynamic_indices"
    if hasattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices")
    else "_dynamo_weak_dynamic_indices"
)


def mark_dynamic(tensor: torch.Tensor, dims: Iterable[int]) -> None:
    setattr(tensor, DYNAMIC_MARK, {*getattr(tensor, DYNAMIC_MARK, ()), *dims})


def warn_if_untested() -> None:
    _warn_about(torch.__version__)


@functools.cache
def _warn_about(version: str) -> None:
    if ".".join(version.split(".")[:2]) not in TESTED:
        warnings.warn(
            f"gex is tested with PyTorch {' and '.join(TESTED)}; this is {version}", stacklevel=3
        )


def _with_integer_places(fake: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fake)
    def corrected(*args: Any, **kwargs: Any) -> Any:
        distinct, *places = fake(*args, **kwargs)
        return distinct, *(p.new_empty(p.shape, dtype=torch.int64) for p in places)

    return corrected


def _correct_fakes() -> None:
    """PyTorch 2.11 infers the dtype of the elements for the indices and counts of unique: traces
    that use them as indices fail, and others get a different dtype than inferred."""
    aten, known = torch.ops.aten, fake_impls.op_implementations_dict
    for op in (aten._unique2, aten.unique_dim, aten.unique_consecutive):
        known[op.default] = _with_integer_places(known[op.default])


def _keep_schemas_of_regions() -> None:
    """PyTorch 2.11 traces the body of a nested compile region twice for each call of it, to find
    out which arguments it writes. The answer depends on the body alone."""
    make = InvokeSubgraphHOP.gen_schema
    known: weakref.WeakKeyDictionary[GraphModule, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(make)
    def gen_schema(self: Any, subgraph: Any, identifier: str | None, *operands: Any) -> Any:
        if not isinstance(subgraph, GraphModule):
            return make(self, subgraph, identifier, *operands)
        of_body, key = known.setdefault(subgraph, {}), (identifier, *map(type, operands))
        if key not in of_body:
            of_body[key] = make(self, subgraph, identifier, *operands)
        return of_body[key]

    InvokeSubgraphHOP.gen_schema = gen_schema


if torch.__version__.startswith("2.11."):
    _correct_fakes()
    _keep_schemas_of_regions()
