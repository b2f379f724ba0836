"""The arguments of gex.compile, kept so that a compiled object can be copied and pickled."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from gex.compat.pytree import tree_flatten, tree_unflatten


@dataclass(frozen=True)
class _Example:
    """An example without its contents: tracing does not need them."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        return _Example(tuple(leaf.shape), leaf.stride(), leaf.dtype)

    def tensor(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype).zero_()


@dataclass
class Source:
    """A module, a function or an exported program, with examples, sizes and options."""

    module: Callable[..., Any] | ExportedProgram
    examples: Any  # (args, kwargs) with _Example for tensors; None for an exported program
    dynamic_shapes: Any
    options: Mapping[str, Any] | None
    training: dict[str, bool]  # of the module and its parts, when it was compiled

    @classmethod
    def of(
        cls,
        module: Callable[..., Any] | ExportedProgram,
        examples: Any,
        dynamic_shapes: Any,
        options: Mapping[str, Any] | None,
    ) -> Source:
        if examples is not None:
            leaves, spec = tree_flatten(examples)
            examples = tree_unflatten([_Example.of(leaf) for leaf in leaves], spec)
        parts = module.named_modules() if isinstance(module, torch.nn.Module) else ()
        training = {name: part.training for name, part in parts}
        return cls(module, examples, dynamic_shapes, options, training)

    def compile_again(self, compile_fn: Callable[..., Any]) -> Any:
        if isinstance(self.module, ExportedProgram):
            return compile_fn(self.module, options=self.options)
        leaves, spec = tree_flatten(self.examples)
        leaves = [x.tensor() if isinstance(x, _Example) else x for x in leaves]
        args, kwargs = tree_unflatten(leaves, spec)
        with self._trained_as_compiled():
            return compile_fn(
                self.module, args, self.dynamic_shapes, self.options, example_kwargs=kwargs
            )

    @contextmanager
    def _trained_as_compiled(self) -> Iterator[None]:
        """With the module in the training mode in which it was compiled."""
        parts = (
            dict(self.module.named_modules()) if isinstance(self.module, torch.nn.Module) else {}
        )
        now = {name: part.training for name, part in parts.items()}
        try:
            for name, part in parts.items():
                part.training = self.training.get(name, part.training)
            yield
        finally:
            for name, part in parts.items():
                part.training = now[name]

    def bind(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Sets these tensors in the module by name: those that a compiled object was bound to."""
        if not isinstance(self.module, torch.nn.Module):
            return
        for name, tensor in tensors:
            path, _, leaf = name.rpartition(".")
            try:
                part = self.module.get_submodule(path)
            except AttributeError:
                continue  # a constant created by tracing
            if _is_elsewhere(part._parameters.get(leaf), tensor):
                part._parameters[leaf] = torch.nn.Parameter(tensor, requires_grad=False)
            elif _is_elsewhere(part._buffers.get(leaf), tensor):
                part._buffers[leaf] = tensor

    def __deepcopy__(self, memo: dict[int, Any]) -> Source:
        module = self.module
        if isinstance(module, ExportedProgram):
            module = _program_of(_bytes_of(module))
        else:
            module = copy.deepcopy(module, memo)
        return Source(module, self.examples, self.dynamic_shapes, self.options, self.training)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if isinstance(self.module, ExportedProgram):
            state["module"] = None
            state["program"] = _bytes_of(self.module)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        program = state.pop("program", None)
        self.__dict__.update(state)
        if program is not None:
            self.module = _program_of(program)


def _is_elsewhere(held: torch.Tensor | None, tensor: torch.Tensor) -> bool:
    return held is not None and held.data_ptr() != tensor.data_ptr()


def _bytes_of(program: ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _program_of(data: bytes) -> ExportedProgram:
    return torch.export.load(io.BytesIO(data))
