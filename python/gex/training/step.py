"""gex.training_step: forward, loss, backward and the optimizer's update in one call."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import increment_version

from gex import report
from gex._gex import UserError
from gex.compat.joint_export import GradientsNotExported, note_step
from gex.compat.torch_version import warn_if_untested
from gex.errors import GraphNotSupported
from gex.importer.graph_import import GraphImport
from gex.options.table import GEX_OPTIONS, Config
from gex.pipeline.runner import RunnerRequest, make_runner
from gex.report import fallback
from gex.training.optimizer_state import GroupState, groups_of, has_state, rule_of, settings_of
from gex.training.step_graph import LossModule, StepGraph, joint_of

_numbers = itertools.count(1)


def training_step(
    model: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    *,
    max_norm: float | None = None,
    return_results: bool = False,
    options: Mapping[str, Any] | None = None,
) -> TrainingStep:
    """One call for `loss(model(*inputs), target).backward()` and `optimizer.step()`.

    The result is called with the model's inputs and the target, and returns the loss; with
    `return_results` the loss and the model's result. Without a loss function the model returns the
    loss itself. `max_norm` clips gradients as clip_grad_norm_ does. Parameters, buffers and the
    optimizer's state are updated in place; gradients are not kept. SGD, Adam and AdamW.
    """
    warn_if_untested()
    return TrainingStep(model, loss, optimizer, max_norm, return_results, options)


@dataclass
class _Compiled:
    run: Callable[[list[Any]], Sequence[Any]]
    before: list[torch.Tensor]  # parameters and buffers
    after: list[torch.Tensor]  # after the arguments of a call
    groups: list[GroupState]
    written: list[torch.Tensor]


class TrainingStep:
    """A compiled training step; `reports` has one entry for each graph, newest last."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        max_norm: float | None,
        return_results: bool,
        options: Mapping[str, Any] | None,
    ) -> None:
        self._module = LossModule(model, loss)
        self._optimizer, self._rule = optimizer, rule_of(optimizer)
        self._max_norm, self._return_results = max_norm, return_results
        self._config = Config(GEX_OPTIONS, options)
        self._compiled: dict[Any, _Compiled] = {}
        self._steps_differ = False  # some graph trains only some of the parameters
        self.reports: list[report.GraphReport] = []
        # It replaces the tensors of the state.
        optimizer.register_load_state_dict_post_hook(lambda _: self._compiled.clear())

    def __call__(self, *args: Any) -> Any:
        key = self._key(args)
        compiled = self._compiled.get(key)
        if compiled is None:
            if not has_state(self._optimizer, self._rule):
                return self._eager(args)
            compiled = self._compiled[key] = self._compile(args)
        for state, group in zip(compiled.groups, self._optimizer.param_groups):
            state.set_rate(group["lr"])
        results = compiled.run([*compiled.before, *args, *compiled.after])
        increment_version(compiled.written)
        note_step(self._optimizer)
        return tuple(results) if self._return_results else results[0]

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        arguments = tuple(
            (a.shape, a.dtype, a.stride()) if isinstance(a, torch.Tensor) else a for a in args
        )
        groups = self._optimizer.param_groups
        settings = tuple(settings_of(g, self._rule) for g in groups)
        trained = tuple(p.requires_grad for g in groups for p in g["params"])
        return arguments, settings, trained, self._module.model.training

    def _eager(self, args: Sequence[Any]) -> Any:
        """With PyTorch's own kernels: the optimizer creates its state."""
        self._optimizer.zero_grad()
        results = self._module(*args)
        results[0].backward()
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        if self._max_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self._max_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()
        loss = results[0].detach()
        return (loss, *results[1:]) if self._return_results else loss

    def _compile(self, args: Sequence[Any]) -> _Compiled:
        start = time.perf_counter()
        try:
            joint = joint_of(self._module, args)
        except GradientsNotExported as problem:
            raise UserError(
                f"training_step does not support this model: {problem}, or use torch.compile for "
                "forward and backward"
            ) from problem
        trained = set(joint.gradients())
        held = {p for group in self._optimizer.param_groups for p in group["params"]}
        groups = groups_of(self._optimizer, self._rule, trained)
        self._forget_old_steps(groups)
        tensors = joint.tensors()
        _check_held(held, tensors, trained)
        graph = StepGraph(joint, groups, self._max_norm, self._steps_differ)
        gm = graph.build(self._rule)
        made = report.GraphReport(f"training_step_{next(_numbers)}", "training_step")
        made.seconds["trace"] = time.perf_counter() - start
        self.reports.append(made)
        report.add(made)
        run = self._engine(gm, made)
        written = [p for group in groups for p in group.parameters]
        return _Compiled(run, tensors, graph.extra, groups, written)

    def _forget_old_steps(self, groups: Sequence[GroupState]) -> None:
        """Drops graphs that count steps elsewhere, or for all parameters where some differ."""
        counted = [group.steps for group in groups if group.steps is not None]
        if any(steps.is_new for steps in counted):
            self._compiled.clear()
        if not self._steps_differ and not all(steps.are_all_trained for steps in counted):
            self._steps_differ = True
            self._compiled.clear()

    def _engine(
        self, gm: torch.fx.GraphModule, made: report.GraphReport
    ) -> Callable[[list[Any]], Sequence[Any]]:
        start = time.perf_counter()
        config = self._config
        try:
            imported = GraphImport(
                gm,
                made.name,
                strict=config.get("strict", False),
                fast_random=config.get("random", "eager") == "fast",
            ).run()
        except GraphNotSupported as problem:
            raise UserError(f"training_step does not support this model: {problem}") from problem
        made.take(imported.outcome)
        fallback.warn_if_any(made)
        made.seconds["import"] = time.perf_counter() - start
        runner = made.runner = make_runner(RunnerRequest(imported, config))
        return torch.no_grad()(imported.adapter.wrap(runner))


def _check_held(
    held: set[torch.Tensor], tensors: Sequence[torch.Tensor], trained: set[torch.Tensor]
) -> None:
    if not held & trained:
        raise UserError("the optimizer holds none of the parameters that have gradients")
    foreign = held - set(tensors)
    if foreign:
        shapes = ", ".join(str(tuple(p.shape)) for p in foreign)
        raise UserError(f"the optimizer holds parameters that are not the model's: {shapes}")
