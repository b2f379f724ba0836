"""The stages of an FX graph, in their order, under the names that debug files give them.

Only what users see as FX is done here. The rest (identities, concatenations, writing in place,
known patterns) is the engine's, whose passes come after the import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from gex.fx_stage import scopes, values
from gex.fx_stage.observation import AOT_GRAPH, Subject, observe
from gex.options import Config


@dataclass(frozen=True)
class Stage:
    name: str
    wanted: Callable[[Config], bool]
    run: Callable[[GraphModule, Sequence[Any], Config], None]


def _custom_pass(option: str) -> Stage:
    """A pass of the user's: edits the graph in place; what it raises ends the compile."""

    def run(gm: GraphModule, example_inputs: Sequence[Any], config: Config) -> None:
        values.fill_in(gm, lambda: config.get(option)(gm, example_inputs, config))

    return Stage(option, lambda config: config.get(option, None) is not None, run)


STAGES = (
    _custom_pass("post_grad_custom_pre_pass"),
    _custom_pass("post_grad_custom_post_pass"),
)


def run(gm: GraphModule, example_inputs: Sequence[Any], config: Config, subject: Subject) -> None:
    """Runs the stages that the options ask for, each seen by the observers."""
    observe(subject, AOT_GRAPH, gm)
    for stage in STAGES:
        if stage.wanted(config):
            stage.run(gm, example_inputs, config)
            observe(subject, stage.name, gm)
    scopes.check_pairs(gm)
