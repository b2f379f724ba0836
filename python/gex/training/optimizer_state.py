"""The state of an optimizer that a training step reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from gex._gex import UserError
from gex.training.updates import RULES, Rule


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    rule = RULES.get(type(optimizer))
    if rule is None:
        names = ", ".join(kind.__name__ for kind in RULES)
        raise UserError(
            f"training_step has no update rule for {type(optimizer).__name__}: use one of {names}, "
            "or torch.compile for forward and backward with this optimizer in eager mode"
        )
    return rule


def settings_of(group: Mapping[str, Any], rule: Rule) -> tuple[Any, ...]:
    """The settings that a graph depends on; the learning rate is an input of the graph."""
    return tuple(group[name] for name in rule.settings)


@dataclass
class Steps:
    """The numbers of steps of all parameters of a group that have state, in one tensor, so that one
    launch increments them. Every graph of the optimizer uses the same tensor."""

    counts: torch.Tensor
    trained: list[int]  # positions of the parameters that the graph trains
    is_new: bool  # graphs that were made earlier use another tensor

    @property
    def are_all_trained(self) -> bool:
        return len(self.trained) == self.counts.numel()


@dataclass
class GroupState:
    """One group of parameters: those that have gradients, and the tensors of their state."""

    settings: dict[str, Any]
    parameters: list[torch.Tensor]
    tensors: list[dict[str, torch.Tensor]]  # of each parameter
    steps: Steps | None
    rate: torch.Tensor  # the learning rate in f64
    _last_rate: float = field(default=-1.0)

    def set_rate(self, rate: float | torch.Tensor) -> None:
        value = float(rate)
        if value != self._last_rate:
            self.rate.fill_(value)
            self._last_rate = value


def has_state(optimizer: torch.optim.Optimizer, rule: Rule) -> bool:
    """Whether the optimizer has made a step: the tensors of its state exist from then on."""
    if not rule.counts and not any(rule.state(g) for g in optimizer.param_groups):
        return True
    return bool(optimizer.state)


def groups_of(
    optimizer: torch.optim.Optimizer, rule: Rule, trained: set[torch.Tensor]
) -> list[GroupState]:
    """The state of the parameters that are trained."""
    found = []
    for group in optimizer.param_groups:
        names = rule.state(group)
        parameters = [p for p in group["params"] if p in trained]
        tensors = []
        for p in parameters:
            state = optimizer.state.get(p, {})
            missing = [name for name in names if state.get(name) is None]
            if missing:
                raise UserError(
                    f"a parameter of shape {tuple(p.shape)} has a gradient but no state "
                    f"{', '.join(missing)}: it got none in the optimizer's first step. Make one "
                    "eager step with gradients for all parameters first"
                )
            tensors.append({name: state[name] for name in names})
        steps = _shared_steps(optimizer, group, trained) if rule.counts and parameters else None
        rate = torch.zeros((), dtype=torch.float64)
        found.append(
            GroupState(
                dict(zip(rule.settings, settings_of(group, rule))), parameters, tensors, steps, rate
            )
        )
    return found


def _shared_steps(
    optimizer: torch.optim.Optimizer, group: Mapping[str, Any], trained: set[torch.Tensor]
) -> Steps:
    """Makes the `step` of each parameter a view of one tensor, unless they are that already."""
    counted = [p for p in group["params"] if "step" in optimizer.state.get(p, {})]
    positions = [i for i, p in enumerate(counted) if p in trained]
    views = [optimizer.state[p]["step"] for p in counted]
    base = views[0]._base
    are_views = all(v._base is base and v.storage_offset() == i for i, v in enumerate(views))
    if base is not None and base.shape == (len(views),) and are_views:
        return Steps(base, positions, is_new=False)
    counts = torch.stack([view.detach().float().cpu() for view in views])
    for i, p in enumerate(counted):
        optimizer.state[p]["step"] = counts[i]
    return Steps(counts, positions, is_new=True)
