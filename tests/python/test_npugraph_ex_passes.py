"""Custom FX passes: when they are called, what they see, and that their changes take effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from gex import fx_stage
from gex.fx_stage import scope_ops

Pass = Callable[[GraphModule, Sequence[Any], Any], None]


def compile_with(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, options=options)


def add_to_sub(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        node.target = torch.ops.aten.sub.Tensor


def insert_before_output(target: Any, *args: Any) -> Pass:
    def edit(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
        with gm.graph.inserting_before(gm.graph.output_node()):
            gm.graph.call_function(target, args)

    return edit


def test_case_52_each_pass_is_called_once_with_graph_inputs_and_config(device: str) -> None:
    seen: list[tuple[str, int, int]] = []

    def recording(name: str) -> Pass:
        def edit(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
            assert isinstance(gm, GraphModule)
            seen.append((name, len(example_inputs), config.capture_limit.value))

        return edit

    compiled = compile_with(
        lambda a, b: a @ b + a,
        post_grad_custom_pre_pass=recording("pre"),
        post_grad_custom_post_pass=recording("post"),
        capture_limit=7,
    )
    a, b = torch.randn(3, 3, device=device), torch.randn(3, 3, device=device)
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b), a @ b + a)
    assert seen == [("pre", 2, 7), ("post", 2, 7)]


@pytest.mark.parametrize("option", ["post_grad_custom_pre_pass", "post_grad_custom_post_pass"])
def test_case_52_a_lone_scope_exit_is_an_error_that_names_the_pair(
    option: str, device: str
) -> None:
    lone = insert_before_output(torch.ops.npugraph_ex.scope_exit.default)
    compiled = compile_with(lambda a: a + 1, **{option: lone})
    with pytest.raises(
        RuntimeError, match=r"scope_exit 'scope_exit.*' has no matching scope_enter"
    ):
        compiled(torch.ones(2, device=device))


def test_a_scope_that_is_never_left_names_its_labels(device: str) -> None:
    enter = torch.ops.npugraph_ex.scope_enter.default
    lone = insert_before_output(enter, ["_user_stream_label"], ["side"])
    compiled = compile_with(lambda a: a + 1, post_grad_custom_pre_pass=lone)
    with pytest.raises(
        RuntimeError, match=r"_user_stream_label=side.*no matching scope_exit.*graph break"
    ):
        compiled(torch.ones(2, device=device))


def test_super_kernel_scopes_pair_by_name(device: str) -> None:
    def edit(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
        insert_before_output(scope_ops.SUPER_KERNEL_BEGIN, "a")(gm, example_inputs, config)
        insert_before_output(scope_ops.SUPER_KERNEL_END, "b")(gm, example_inputs, config)

    compiled = compile_with(lambda a: a + 1, post_grad_custom_pre_pass=edit)
    with pytest.raises(RuntimeError, match=r"super_kernel_scope_end\('b'\)"):
        compiled(torch.ones(2, device=device))


def test_scopes_change_no_value(device: str) -> None:
    def on_side_stream(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
        ops = torch.ops.npugraph_ex
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default):
            with gm.graph.inserting_before(node):
                labels = (["_user_stream_label"], ["side"])
                gm.graph.call_function(ops.scope_enter.default, labels)
            with gm.graph.inserting_after(node):
                gm.graph.call_function(ops.scope_exit.default)

    compiled = compile_with(lambda a: a @ a + 1, post_grad_custom_pre_pass=on_side_stream)
    a = torch.randn(4, 4, device=device)
    torch.testing.assert_close(compiled(a), a @ a + 1)


def test_changes_of_a_pass_are_compiled(device: str) -> None:
    compiled = compile_with(lambda a, b: (a + b) * 2, post_grad_custom_pre_pass=add_to_sub)
    a, b = torch.randn(5, device=device), torch.randn(5, device=device)
    torch.testing.assert_close(compiled(a, b), (a - b) * 2)


def test_nodes_after_a_change_of_type_get_their_new_type(device: str) -> None:
    def to_double(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
        with gm.graph.inserting_after(node):
            to = torch.ops.prims.convert_element_type.default
            wide = gm.graph.call_function(to, (node, torch.float64))
        node.replace_all_uses_with(wide, delete_user_cb=lambda user: user is not wide)

    compiled = compile_with(lambda a: (a + 1).exp().sin(), post_grad_custom_post_pass=to_double)
    a = torch.randn(5, device=device)
    torch.testing.assert_close(compiled(a), (a + 1).double().exp().sin())


def test_an_error_in_a_pass_ends_the_compile_with_its_own_type(device: str) -> None:
    def fail(gm: GraphModule, example_inputs: Sequence[Any], config: Any) -> None:
        raise KeyError("mine")

    compiled = compile_with(lambda a: a + 1, post_grad_custom_pre_pass=fail)
    with pytest.raises(Exception, match="KeyError: 'mine'"):
        compiled(torch.ones(2, device=device))


def test_observers_see_the_graph_after_each_stage(device: str) -> None:
    seen: list[tuple[str, str, int]] = []
    take_off = fx_stage.add_observer(
        lambda subject, stage, gm: seen.append((subject.phase, stage, len(gm.graph.nodes)))
    )
    try:
        lone = insert_before_output(torch.ops.npugraph_ex.record.default)
        compile_with(lambda a: a + 1, post_grad_custom_pre_pass=lone)(torch.ones(2, device=device))
    finally:
        take_off()
    assert seen[:2] == [
        ("forward", fx_stage.AOT_GRAPH, 3),
        ("forward", "post_grad_custom_pre_pass", 4),
    ]
