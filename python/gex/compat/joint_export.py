"""AOTAutograd's export of a forward and its gradients as one graph."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import GraphSignature, aot_export_module
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule

from gex.compat.resampling import whole_resampling

__all__ = ["GradientsNotExported", "GraphSignature", "exported_joint", "note_step"]


class GradientsNotExported(Exception):
    """PyTorch can't export the gradients of a model; the message says why and what to do."""


class _Unique(torch.nn.Module):
    """A module with each of its tensors under one name, as fake tensors.

    AOTAutograd treats a parameter with two names as two parameters.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        names: Sequence[str],
        tensors: Sequence[torch.Tensor],
        views: bool,
    ) -> None:
        super().__init__()
        self._views = views
        self._call = functools.partial(torch.func.functional_call, module)
        self._names = list(names)
        for k, tensor in enumerate(tensors):
            if isinstance(tensor, torch.nn.Parameter):
                self.register_parameter(f"t{k}", tensor)
            else:
                self.register_buffer(f"t{k}", tensor)

    def forward(self, *args: Any) -> Any:
        tensors = [getattr(self, f"t{k}") for k in range(len(self._names))]
        if self._views:
            tensors = [t.view_as(t) if t.requires_grad else t for t in tensors]
        return self._call(dict(zip(self._names, tensors)), args)


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    """Recurrent layers are traced as their cells, not as one op whose gradient is another.

    torch.backends.mkldnn.flags also sets TF32, with a warning.
    """
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _traced(
    module: torch.nn.Module,
    names: Sequence[str],
    tensors: Sequence[torch.Tensor],
    args: tuple[Any, ...],
    views: bool = False,
) -> tuple[GraphModule, GraphSignature]:
    unique = _Unique(module, names, tensors, views)
    try:
        with whole_resampling():
            return aot_export_module(unique, args, trace_joint=True, output_loss_index=0)
    except AssertionError as problem:
        if "did not receive a gradient" in str(problem):
            raise GradientsNotExported(
                "the loss does not depend on a parameter: call requires_grad_(False) on it"
            ) from problem
        if views or "gradients_to_parameters" not in str(problem):
            raise
    # PyTorch names gradients by their values, so two parameters must not have one gradient, as the
    # two biases of an LSTM do. The gradient of a view of a parameter is a value of its own.
    return _traced(module, names, tensors, args, views=True)


def exported_joint(
    module: torch.nn.Module, args: tuple[Any, ...]
) -> tuple[GraphModule, GraphSignature, list[torch.Tensor], FakeTensorMode]:
    """The graph of a module whose first result is the loss: parameters, buffers and arguments in;
    new values of written buffers, results and gradients out. And the parameters and buffers, which
    the signature calls t0, t1, ..."""
    named = dict(module.named_parameters()) | dict(module.named_buffers())
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(tensor) for tensor in named.values()]
    fake_args = tuple(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args)
    # Tensors that the module makes are fake, too.
    with mode, _without_onednn(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        gm, signature = _traced(module, list(named), fakes, fake_args)
    return gm, signature, list(named.values()), mode


def note_step(optimizer: torch.optim.Optimizer) -> None:
    """The flag that learning rate schedulers check: that the optimizer made a step before them."""
    optimizer._opt_called = True
