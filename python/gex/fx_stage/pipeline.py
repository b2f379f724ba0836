"""The stages of an FX graph in order, with the names used in debug files.

Only what users can observe as FX is done here. The rest (identities, concatenations, in-place
writes, known patterns) is done by the engine's passes after the import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from gex.fx_stage import replacements, scopes, values
from gex.fx_stage.observation import ALL_PASSES, AOT_GRAPH, Subject, observe
from gex.options.table import Config

_PRE_PASS, _POST_PASS = "post_grad_custom_pre_pass", "post_grad_custom_post_pass"


@dataclass(frozen=True)
class Stage:
    name: str
    wanted: Callable[[Config], bool]
    run: Callable[[GraphModule, Sequence[Any], Config], None]


def _has(option: str) -> Callable[[Config], bool]:
    return lambda config: config.get(option, None) is not None


def _custom_pass(option: str) -> Stage:
    """A user's pass: edits the graph in place; an exception ends the compile."""

    def run(gm: GraphModule, example_inputs: Sequence[Any], config: Config) -> None:
        values.fill_in(gm, lambda: config.get(option)(gm, example_inputs, config))

    return Stage(option, _has(option), run)


def _replaces(config: Config) -> bool:
    return config.get("pattern_fusion_pass", False) and replacements.any_registered()


def _reads_noop_calls(config: Config) -> bool:
    """Whether a later stage would be disturbed by nodes that do nothing."""
    return config.get("remove_noop_ops", False) and (_replaces(config) or _has(_POST_PASS)(config))


def _remove_noop_calls(gm: GraphModule, _: Sequence[Any], config: Config) -> None:
    values.fill_in(gm, lambda: replacements.remove_noop_calls(gm.graph))


def _replace(gm: GraphModule, _: Sequence[Any], config: Config) -> None:
    scopes.check_pairs(gm)  # patterns match on one stream only
    values.fill_in(gm, lambda: replacements.apply(gm))


def _views_as_reshapes(gm: GraphModule, _: Sequence[Any], config: Config) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
    gm.recompile()


STAGES = (
    _custom_pass(_PRE_PASS),
    # The engine removes identities itself; patterns and the second custom pass must not see them
    # either.
    Stage("optimize_noop_ops", _reads_noop_calls, _remove_noop_calls),
    Stage("apply_pattern_passes", _replaces, _replace),
    # The second custom pass sees only reshapes, as in the reference.
    Stage("view_to_reshape", _has(_POST_PASS), _views_as_reshapes),
    _custom_pass(_POST_PASS),
)


def any_wanted(config: Config) -> bool:
    return any(stage.wanted(config) for stage in STAGES)


def run(gm: GraphModule, example_inputs: Sequence[Any], config: Config, subject: Subject) -> None:
    """Runs the stages that the options enable, each shown to the observers."""
    observe(subject, AOT_GRAPH, gm)
    for stage in STAGES:
        if stage.wanted(config):
            stage.run(gm, example_inputs, config)
            observe(subject, stage.name, gm)
    observe(subject, ALL_PASSES, gm)
    scopes.check_pairs(gm)
