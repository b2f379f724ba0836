"""The options `dump_tensor_data`, `data_dump_stage` and `data_dump_dir`: dumps every node's
tensors.

- Stage `optimized`: a save follows every tensor of the graph that the engine compiles, so the files
hold what compiled kernels computed. A saved value is stored by its kernel; fusion is otherwise
unchanged.
- Stage `original`: the graph from AOTAutograd, with saves, runs eagerly.
- With `force_eager`: NumPy files of every node's inputs and outputs, one folder per call.

`index.jsonl` beside the files has a row for each, in graph order.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node

from gex.debug.graph_nodes import insert_after, is_tensor, target_name
from gex.fx_stage import effect_ops
from gex.importer.body_import import location_of
from gex.options.table import Config

INDEX = "index.jsonl"


def wanted(config: Config) -> bool:
    return bool(config.get("dump_tensor_data", False))


def of_original(config: Config) -> bool:
    return wanted(config) and config.get("data_dump_stage") == "original"


def folder_of(config: Config) -> str:
    world, rank = 1, 0
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    folder = os.path.join(config.get("data_dump_dir"), f"worldsize{world}_global_rank{rank}")
    os.makedirs(folder, exist_ok=True)
    return folder


def insert_saves(gm: GraphModule, graph_name: str, config: Config) -> None:
    """Adds a save for every tensor of the graph that the user does not save already."""
    if config.get("super_kernel_optimize", False) and not of_original(config):
        warnings.warn(
            "super_kernel_optimize merges kernels after capture: dump_tensor_data is ignored; "
            "set data_dump_stage to 'original' or leave super_kernel_optimize out",
            stacklevel=2,
        )
        return
    folder = folder_of(config)
    by_step = bool(config.get("data_dump_by_step", False))
    saves: list[tuple[Node, Node]] = []
    for node in list(gm.graph.nodes):
        if node.op == "output" or not is_tensor(node):
            continue
        if any(user.target is effect_ops.SAVE for user in node.users):
            continue
        path = os.path.join(folder, node.name)
        arguments = ([node], path, False, False, by_step, -1)

        def save(node: Node = node, arguments: tuple[Any, ...] = arguments) -> None:
            saves.append((node, gm.graph.call_function(effect_ops.SAVE, arguments)))

        insert_after(gm.graph, node, save)
    for _, added in saves:
        added.meta["val"] = None
    effect_ops.number_saves(gm)
    gm.recompile()
    rows = [
        _row(node, graph_name, os.path.basename(effect_ops.file_saved_by(save)), "OUTPUT.0")
        for node, save in saves
    ]
    _add_to_index(folder, rows)


def _row(node: Node, graph_name: str, file: str, role: str) -> dict[str, Any]:
    val = node.meta.get("val")
    return {
        "graph": graph_name,
        "node": node.name,
        "target": target_name(node),
        "role": role,
        "file": file,
        "dtype": str(val.dtype).removeprefix("torch.") if is_tensor(node) else "",
        "shape": [str(size) for size in val.shape] if is_tensor(node) else [],
        "line": location_of(node),
    }


def _add_to_index(folder: str, rows: Sequence[dict[str, Any]]) -> None:
    with open(os.path.join(folder, INDEX), "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """bfloat16 and other types that NumPy lacks as float32."""
    tensor = tensor.detach().cpu()
    try:
        return tensor.resolve_conj().resolve_neg().numpy()
    except TypeError:
        return tensor.float().numpy()


class NumpyDumper(Interpreter):
    """Runs a graph op by op and writes the inputs and outputs of each node."""

    def __init__(self, gm: GraphModule, graph_name: str, config: Config) -> None:
        super().__init__(gm)
        self._folder = os.path.join(folder_of(config), graph_name)
        self._graph_name = graph_name
        self._steps = itertools.count()
        self._rows: list[dict[str, Any]] = []
        self._step_folder = ""

    def function(self) -> Callable[[list[Any]], Sequence[Any]]:
        def run(arguments: list[Any]) -> Sequence[Any]:
            self._step_folder = os.path.join(self._folder, str(next(self._steps)))
            os.makedirs(self._step_folder, exist_ok=True)
            self._rows = []
            results = self.boxed_run(arguments)
            _add_to_index(self._step_folder, self._rows)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def run_node(self, node: Node) -> Any:
        if node.target in effect_ops.TARGETS:  # their inputs are written where they are computed
            return super().run_node(node)
        if node.op == "call_function":
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            # Written before the node runs, because it may overwrite them.
            for i, argument in enumerate((*args, *kwargs.values())):
                self._write(node, f"INPUT.{i}", argument)
        result = super().run_node(node)
        if node.op != "output":
            self._write(node, "OUTPUT", result)
        return result

    def _write(self, node: Node, role: str, value: Any) -> None:
        is_list = isinstance(value, (list, tuple))
        items = list(value) if is_list else [value]
        for i, item in enumerate(items):
            if not isinstance(item, torch.Tensor):
                continue
            numbered = is_list or role == "OUTPUT"
            full_role = f"{role}.{i}" if numbered else role
            file = f"{node.name}-{target_name(node)}.{full_role}.{time.time_ns()}.npy"
            np.save(os.path.join(self._step_folder, file), as_array(item))
            self._rows.append(_row(node, self._graph_name, file, full_role))
