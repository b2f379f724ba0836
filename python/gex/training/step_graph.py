"""The graph of a training step: the joint graph of forward and backward, with updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from gex.compat.fake_tensors import FakeTensorMode
from gex.compat.joint_export import GraphSignature, exported_joint
from gex.training.graph_terms import Term, call
from gex.training.optimizer_state import GroupState
from gex.training.updates import Moment, Rule

_aten = torch.ops.aten
_NORM_SLACK = 1e-6  # as in torch.nn.utils.clip_grad_norm_


class LossModule(torch.nn.Module):
    """Returns the loss, and the model's results without gradients."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any] | None) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        if self._loss is None:
            return (_loss_of(self.model(*args)),)
        results = self.model(*args[:-1])
        loss = self._loss(results, args[-1])
        return (loss, results.detach()) if isinstance(results, torch.Tensor) else (loss,)


def _loss_of(results: Any) -> torch.Tensor:
    if isinstance(results, torch.Tensor):
        return results
    return results.loss if hasattr(results, "loss") else results[0]


@dataclass
class Joint:
    """Forward, loss and gradients of a module."""

    gm: GraphModule
    signature: GraphSignature
    held: list[torch.Tensor]  # parameters and buffers, by the numbers in the signature's names
    mode: FakeTensorMode
    inputs: list[Node] = field(init=False)
    results: dict[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        values = self.gm.graph.output_node().args[0]
        self.results = {n.name: n for n in values if isinstance(n, Node)}

    @property
    def names(self) -> list[str]:
        return [*self.signature.parameters, *self.signature.buffers]

    def _tensor(self, name: str) -> torch.Tensor:
        return self.held[int(name.removeprefix("t"))]

    def tensors(self) -> list[torch.Tensor]:
        """Parameters and buffers in the order of the graph's inputs."""
        return [self._tensor(name) for name in self.names]

    def gradients(self) -> dict[torch.Tensor, Node]:
        backward = self.signature.backward_signature
        assert backward is not None
        found = backward.gradients_to_parameters.items()
        return {self._tensor(p): self.results[r] for r, p in found if r in self.results}

    def returned(self) -> list[Node]:
        return [self.results[name] for name in self.signature.user_outputs]

    def written_buffers(self) -> list[tuple[Node, Node]]:
        inputs = dict(zip(self.names, self.inputs))
        written = self.signature.buffers_to_mutate.items()
        return [(inputs[buffer], self.results[result]) for result, buffer in written]


def joint_of(module: LossModule, args: Sequence[Any]) -> Joint:
    return Joint(*exported_joint(module, tuple(args)))


class StepGraph:
    """Adds the updates to a joint graph. `extra` are the tensors of the inputs that it adds."""

    def __init__(
        self,
        joint: Joint,
        groups: Sequence[GroupState],
        max_norm: float | None,
        steps_differ: bool = False,
    ) -> None:
        """`steps_differ`: another graph trains only some of the parameters."""
        self._joint, self._graph = joint, joint.gm.graph
        self._mode = joint.mode
        self._last_input = joint.inputs[-1]
        self.extra: list[torch.Tensor] = []
        self._written: list[tuple[Node, Node]] = joint.written_buffers()
        self._gradients = joint.gradients()
        self._groups, self._max_norm = groups, max_norm
        self._steps_differ = steps_differ
        self._first_operation = self._last_input.next

    def build(self, rule: Rule) -> GraphModule:
        inputs = {id(t): n for t, n in zip(self._joint.tensors(), self._joint.inputs)}
        factor = None if self._max_norm is None else self._norm_factor(self._max_norm)
        for group in self._groups:
            rate = Term(self._graph, self._add_input(group.rate))
            moments = self._moments(group, rate)
            for p, tensors, moment in zip(group.parameters, group.tensors, moments):
                self._update(
                    rule, group, inputs[id(p)], self._gradients[p], tensors, moment, factor
                )
        self._finish()
        return self._joint.gm

    def _add_input(self, tensor: torch.Tensor) -> Node:
        with self._graph.inserting_after(self._last_input):
            node = self._graph.placeholder(f"state_{len(self.extra)}")
        node.meta["val"] = self._mode.from_tensor(tensor)
        self._last_input = node
        self.extra.append(tensor)
        return node

    def _moments(self, group: GroupState, rate: Term) -> list[Moment]:
        """Parameters that have made equally many steps share the scalars if all parameters always
        make their steps together."""
        if group.steps is None:
            return [Moment(rate, None)] * len(group.parameters)
        steps = self._add_input(group.steps.counts)
        counts, trained = group.steps.counts.tolist(), group.steps.trained
        more: Term | float = 1.0
        if not group.steps.are_all_trained:
            ones = torch.zeros_like(group.steps.counts)
            ones[trained] = 1.0
            more = Term(self._graph, self._add_input(ones))
        with self._graph.inserting_before(self._first_operation):
            next_steps = Term(self._graph, steps) + more
            self._written.append((steps, next_steps.node))
            keys = trained if self._steps_differ else [counts[i] for i in trained]
            moments = {
                key: Moment(rate, next_steps.at(trained[keys.index(key)]).to(torch.float64))
                for key in dict.fromkeys(keys)
            }
        return [moments[key] for key in keys]

    def _norm_factor(self, max_norm: float) -> Term:
        """The factor, at most 1, that limits the norm of the gradients."""
        trained = [self._gradients[p] for group in self._groups for p in group.parameters]
        with self._graph.inserting_before(self._graph.output_node()):
            squares = [Term(self._graph, g).sum_of_squares() for g in trained]
            total = squares[0]
            for square in squares[1:]:
                total = total + square
            node = (total.sqrt() + _NORM_SLACK).node
            inverse = Term(self._graph, call(self._graph, _aten.reciprocal.default, node))
            return (inverse * max_norm).at_most(1.0)

    def _update(
        self,
        rule: Rule,
        group: GroupState,
        parameter: Node,
        gradient: Node,
        tensors: dict[str, torch.Tensor],
        moment: Moment,
        factor: Term | None,
    ) -> None:
        """Directly after the gradient, whose memory is then free, unless a norm needs all
        gradients."""
        graph = self._graph
        inputs = {name: self._add_input(tensor) for name, tensor in tensors.items()}
        before = gradient.next if factor is None else graph.output_node()
        with graph.inserting_before(before):
            state = {name: Term(graph, node) for name, node in inputs.items()}
            change = Term(graph, gradient)
            if factor is not None:
                change = change * factor
            new = rule.update(Term(graph, parameter), change, state, group.settings, moment)
        self._written.append((parameter, new.node))
        self._written += [(inputs[name], state[name].node) for name in inputs]

    def _finish(self) -> None:
        output = self._graph.output_node()
        with self._graph.inserting_before(output):
            for target, value in self._written:
                call(self._graph, _aten.copy_.default, target, value)
        output.args = (tuple(self._joint.returned()),)
        self._graph.lint()
        self._joint.gm.recompile()
