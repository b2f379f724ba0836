"""Operators without results that are called for their effect: print, save or check a value.

In a compiled graph each is a step of the Program that runs at every replay, in order with other
steps with effects. No pass removes or reorders one.
"""

from __future__ import annotations

import builtins
import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_library = torch.library.Library("gex", "FRAGMENT")
_library.define("print_tensor(Tensor tensor, str name) -> ()")
# `site` is -1 until the call is part of a compiled graph: see `number_saves`.
_library.define(
    "save_tensors(Tensor[] tensors, str path, bool as_list, bool overwrite, bool by_step, int site)"
    " -> ()"
)
_library.define("check_value(Tensor tensor, int check) -> ()")

_files: Counter[str] = Counter()  # number of requests per path
_sites: dict[int, tuple[str, str]] = {}  # file stem and extension of each save in a graph
_site_numbers = itertools.count()
_steps: defaultdict[str, itertools.count[int]] = defaultdict(itertools.count)
checks: dict[int, Any] = {}  # by number: called with the tensor


def print(tensor: torch.Tensor, name: str | None = None) -> None:
    """Prints value, shape and dtype, eagerly or from inside a compiled graph."""
    _require_tensor(tensor, "print")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"print: the name must be a str or None, got {type(name)}")
    torch.ops.gex.print_tensor(tensor, name or "tensor")


def print_npugraph_tensor(tensor: torch.Tensor, *, tensor_name: str | None = None) -> None:
    """`print` under the name and with the signature of npugraph_ex."""
    print(tensor, tensor_name)


def save_npugraph_tensor(
    tensor: torch.Tensor | Sequence[torch.Tensor],
    *,
    save_path: str | None = None,
    overwrite: bool = False,
    by_step: bool = False,
) -> None:
    """Saves a tensor, or a list of them, with torch.save whenever this line runs.

    Calls for one path are numbered, `<stem>_0.pt`, `<stem>_1.pt`; a call in a compiled graph keeps
    its number, and later runs replace its file. `by_step` adds `_step<n>` for each run instead;
    `overwrite` leaves all numbers out.
    """
    as_list = not isinstance(tensor, torch.Tensor)
    if as_list and not isinstance(tensor, (list, tuple)):
        raise TypeError(f"save_npugraph_tensor: expected tensors, got {type(tensor)}")
    tensors = list(tensor) if as_list else [tensor]
    for item in tensors:
        _require_tensor(item, "save_npugraph_tensor")
    if save_path is not None and not isinstance(save_path, str):
        raise TypeError(
            f"save_npugraph_tensor: save_path must be a str or None, got {type(save_path)}"
        )
    if save_path is not None and not os.path.splitext(os.path.basename(save_path))[0]:
        raise ValueError(
            f"save_npugraph_tensor: save_path {save_path!r} has no file name; give one"
        )
    for name, flag in (("overwrite", overwrite), ("by_step", by_step)):
        if not isinstance(flag, bool):
            raise TypeError(f"save_npugraph_tensor: {name} must be a bool, got {type(flag)}")
    torch.ops.gex.save_tensors(tensors, save_path or "", as_list, overwrite, by_step, -1)


def _require_tensor(value: Any, what: str) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{what}: expected a tensor, got {value!r} of {type(value)}")


def _print_tensor(tensor: torch.Tensor, name: str) -> None:
    shape = list(tensor.shape)
    builtins.print(f"{name}: {tensor.detach()}, shape={shape}, dtype={tensor.dtype}", flush=True)


def _stem_and_extension(path: str) -> tuple[str, str]:
    stem, extension = os.path.splitext(path or f"tensor_{time.time_ns()}")
    return stem, extension or ".pt"


def file_of(path: str, device: torch.device, overwrite: bool) -> tuple[str, str]:
    """Stem and extension of the next file for this path."""
    stem, extension = _stem_and_extension(path)
    if device.type != "cpu":
        stem += f"_device_{device.index or 0}"
    if overwrite:
        return stem, extension
    name = stem + extension
    _files[name] += 1
    return f"{stem}_{_files[name] - 1}", extension


def _save_tensors(
    tensors: list[torch.Tensor], path: str, as_list: bool, overwrite: bool, by_step: bool, site: int
) -> None:
    device = tensors[0].device if tensors else torch.device("cpu")
    stem, extension = _sites[site] if site >= 0 else file_of(path, device, overwrite)
    if by_step:
        stem += f"_step{next(_steps[stem])}"
    folder = os.path.dirname(stem)
    if folder:
        os.makedirs(folder, exist_ok=True)
    # Saving a view would save the whole memory that it views.
    copies = [tensor.detach().clone() for tensor in tensors]
    torch.save(copies if as_list else copies[0], stem + extension)


def _check_value(tensor: torch.Tensor, check: int) -> None:
    checks[check](tensor)


def _nothing(*_: Any) -> None:
    return None


for _name, _function in (
    ("print_tensor", _print_tensor),
    ("save_tensors", _save_tensors),
    ("check_value", _check_value),
):
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    _library.impl(_name, _nothing, "Meta")  # register_fake() reads source files: 20 ms

PRINT = torch.ops.gex.print_tensor.default
SAVE = torch.ops.gex.save_tensors.default
CHECK = torch.ops.gex.check_value.default
TARGETS = (PRINT, SAVE, CHECK)
for _target in TARGETS:
    torch.fx.node.has_side_effect(_target)


def number_saves(gm: GraphModule) -> None:
    """Assigns every save in the graph its file, so that each replay writes the same one."""
    for node in gm.graph.find_nodes(op="call_function", target=SAVE):
        tensors, path, as_list, overwrite, by_step, site = node.args
        if site < 0:
            device = tensors[0].meta["val"].device if tensors else torch.device("cpu")
            site = next(_site_numbers)
            _sites[site] = file_of(path, device, overwrite)
            node.args = (tensors, path, as_list, overwrite, by_step, site)


def file_saved_by(node: Node) -> str:
    """The file that a numbered save writes."""
    return "".join(_sites[node.args[5]])
