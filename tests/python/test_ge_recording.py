"""Recorded eager calls: NPUGraph, `with graph(g):`, make_graphed_callables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conftest import assert_same
from gex.npugraph_ex import graph_pool_handle, pool_bytes
from gex.recording import (
    NPUGraph,
    graph,
    is_current_stream_capturing,
    make_graphed_callables,
)


def test_case_70_a_replay_reads_what_the_input_holds_now(device: str) -> None:
    a = torch.ones(1000, device=device)
    g = NPUGraph()
    with graph(g):
        assert is_current_stream_capturing()
        b = a
        for _ in range(10):
            b = b + 1
    assert not is_current_stream_capturing()
    g.replay()
    assert b.sum().item() == 11000
    address = b.data_ptr()
    a.fill_(2)
    g.replay()
    assert b.sum().item() == 12000
    assert b.data_ptr() == address


def test_a_capture_changes_nothing_until_it_is_replayed(device: str) -> None:
    total = torch.zeros(3, device=device)
    batch_norm = nn.BatchNorm1d(3).to(device)
    x = torch.randn(5, 3, device=device)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    g = NPUGraph()
    with graph(g), torch.no_grad():
        y = F.dropout(batch_norm(x))
        total += y.sum(0)
    assert total.tolist() == [0, 0, 0]
    assert batch_norm.num_batches_tracked == 0
    assert batch_norm.running_mean.tolist() == [0, 0, 0]
    assert torch.equal(torch.get_rng_state(), state)

    want = nn.BatchNorm1d(3).to(device)
    want_total = torch.zeros(3, device=device)
    with torch.no_grad():
        for _ in range(3):
            g.replay()
        torch.manual_seed(7)
        for _ in range(3):
            want_y = F.dropout(want(x))
            want_total += want_y.sum(0)
    assert_same(y, want_y)
    assert_same(total, want_total)
    assert_same(batch_norm.running_mean, want.running_mean)
    assert batch_norm.num_batches_tracked == 3


def test_a_training_step_with_its_optimizer_is_recorded_as_a_whole(device: str) -> None:
    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = make()
    x, y = torch.randn(16, 4, device=device), torch.randn(16, 1, device=device)
    g = NPUGraph()
    with graph(g):
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    want, want_optimizer = make()
    for _ in range(20):
        data = torch.randn(16, 4, device=device)
        x.copy_(data)
        g.replay()
        want_optimizer.zero_grad(set_to_none=True)
        want_loss = F.mse_loss(want(data), y)
        want_loss.backward()
        want_optimizer.step()
        assert_same(loss.detach(), want_loss.detach())
    assert_same([p.detach() for p in model.parameters()], [p.detach() for p in want.parameters()])
    assert_same([p.grad for p in model.parameters()], [p.grad for p in want.parameters()])


def test_case_80_random_numbers_differ_between_replays_and_repeat_with_the_seed(
    device: str,
) -> None:
    x = torch.ones(100, device=device)
    g = NPUGraph()
    with graph(g):
        y = F.dropout(x)
    torch.manual_seed(3)
    g.replay()
    first = y.clone()
    g.replay()
    assert not torch.equal(y, first)
    torch.manual_seed(3)
    g.replay()
    assert torch.equal(y, first)
    torch.manual_seed(3)
    assert torch.equal(F.dropout(x), first)


def test_numbers_of_a_registered_generator_are_those_of_eager(device: str) -> None:
    generator = torch.Generator(device).manual_seed(5)
    g = NPUGraph()
    g.register_generator_state(generator)
    x = torch.ones(4, device=device)
    with graph(g):
        y = torch.randn(3, generator=generator, device=device) + 1
        torch.randn(2, generator=generator, device=device)  # drawn, though nobody looks
        x.normal_(generator=generator)
    got = []
    for _ in range(3):
        g.replay()
        got.append((y.clone(), x.clone()))
    generator.manual_seed(5)
    for mine, also_mine in got:
        assert torch.equal(mine, torch.randn(3, generator=generator, device=device) + 1)
        torch.randn(2, generator=generator, device=device)
        assert torch.equal(also_mine, torch.empty_like(x).normal_(generator=generator))
    with (
        pytest.raises(RuntimeError, match=r"call register_generator_state\(\) before"),
        graph(NPUGraph()),
    ):
        torch.randn(3, generator=generator, device=device)
    other = NPUGraph()
    other.register_generator_state(generator)
    with pytest.raises(RuntimeError, match="seeded during"), graph(other):
        generator.manual_seed(6)


def test_case_80_seeding_during_a_capture_is_an_error(device: str) -> None:
    torch.manual_seed(1)
    with pytest.raises(RuntimeError, match="seeded during the capture"), graph(NPUGraph()):
        torch.manual_seed(2)
        torch.randn(3, device=device)
    assert torch.initial_seed() == 1
    assert not is_current_stream_capturing()


def test_views_made_before_and_inside_a_capture(device: str) -> None:
    base = torch.arange(12.0, device=device)
    view = base.view(3, 4)
    g = NPUGraph()
    with graph(g):
        view[1].mul_(2)
        total = base.sum()
        row = (base + 1).view(3, 4)[2]
    for start in (0.0, 1.0):
        base.copy_(torch.arange(12.0, device=device) + start)
        want = base.clone()
        want.view(3, 4)[1].mul_(2)
        g.replay()
        assert_same(base, want)
        assert_same(total, want.sum())
        assert_same(row.clone(), (want + 1).view(3, 4)[2].clone())


def test_another_tensor_over_the_memory_of_one_that_was_made(device: str) -> None:
    x = torch.zeros(3, device=device)
    g = NPUGraph()
    with graph(g):
        z = (x + 1).data * 2  # no operator runs for `.data`
    x.fill_(4)
    g.replay()
    assert z.tolist() == [10, 10, 10]


def test_a_value_for_the_host_is_rejected_without_side_effects(device: str) -> None:
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="returns a value to the host"), graph(NPUGraph()):
        x.sum().item()
    assert not is_current_stream_capturing()
    assert x.sum().item() == 3


def test_misuse_is_reported(device: str) -> None:
    g = NPUGraph()
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        g.replay()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()
    with pytest.raises(ValueError, match="not in optional list"):
        g.capture_begin(capture_error_mode="never")
    x = torch.ones(2, device=device)
    with graph(g):
        with pytest.raises(RuntimeError, match="one at a time"):
            NPUGraph().capture_begin()
        y = x + 1
    with pytest.raises(RuntimeError, match="reset"):
        g.capture_begin()
    g.replay()
    assert y.tolist() == [2, 2]
    g.reset()
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        g.replay()


def test_debug_dump_lists_what_was_recorded(tmp_path: Path, device: str) -> None:
    x = torch.ones(2, device=device)
    g = NPUGraph()
    with graph(g):
        y = (x + 1).exp()
    g.debug_dump(str(tmp_path / "g.json"))
    dump = json.loads((tmp_path / "g.json").read_text())
    assert [step["op"] for step in dump["steps"]][:2] == ["aten.add.Tensor", "aten.exp.default"]
    assert "native nodes" in dump["program"]
    g.replay()
    assert_same(y, (x + 1).exp())


def test_case_79_three_linears_around_a_branch_on_data(device: str) -> None:
    def make() -> list[nn.Module]:
        torch.manual_seed(0)
        return [nn.Linear(4, 4).to(device) for _ in range(3)]

    layers, want_layers = make(), make()
    samples = [(torch.randn(2, 4, requires_grad=i > 0, device=device),) for i in range(3)]
    graphed = make_graphed_callables(tuple(layers), tuple(samples))
    assert all(p.grad is None for layer in layers for p in layer.parameters())

    def step(modules: list[nn.Module], x: torch.Tensor) -> torch.Tensor:
        y = modules[0](x)
        y = modules[1](y) if y.sum().item() > 0 else modules[2](y)
        loss = y.square().mean()
        loss.backward()
        with torch.no_grad():
            for module in modules:
                for parameter in module.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
                        parameter.grad = None
        return loss.detach()

    branches = set()
    for _ in range(10):
        x = torch.randn(2, 4, device=device)
        branches.add(want_layers[0](x).sum().item() > 0)
        assert_same(step(list(graphed), x), step(want_layers, x))
    assert branches == {True, False}


def test_case_79_functions_that_can_not_be_graphed_are_errors(device: str) -> None:
    x = torch.randn(2, 4, device=device)
    hooked = nn.Linear(4, 4).to(device)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="has hooks"):
        make_graphed_callables(hooked, (x,))
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match="autocast's cache"),
    ):
        make_graphed_callables(nn.Linear(4, 4).to(device), (x,))
    with pytest.raises(TypeError, match="must be tensors, got 3"):
        make_graphed_callables(nn.Linear(4, 4).to(device), (3,))
    leaf = nn.BatchNorm1d(4).to(device)
    leaf.running_mean.requires_grad_()
    with pytest.raises(RuntimeError, match="buffer 'running_mean' requires a gradient"):
        make_graphed_callables(leaf, (x,))
    with pytest.raises(ValueError, match="2 callables with 1 sets"):
        make_graphed_callables((nn.Linear(4, 4).to(device), nn.Linear(4, 4).to(device)), ((x,),))


def test_graphed_callables_share_one_pool(device: str) -> None:
    handle = graph_pool_handle()
    layers = tuple(nn.Sequential(nn.Linear(64, 64), nn.Softmax(-1)).to(device) for _ in range(2))
    x = torch.randn(8, 64, device=device)
    want = [layer(x) for layer in layers]
    graphed = make_graphed_callables(layers, ((x,), (x,)), pool=handle)
    assert_same([layer(x) for layer in graphed], want)
    assert pool_bytes(handle) > 0


def test_an_input_that_no_result_depends_on(device: str) -> None:
    x, unused = (torch.randn(3, requires_grad=True, device=device) for _ in range(2))
    with pytest.raises(RuntimeError, match="no result depends on input 1"):
        make_graphed_callables(lambda x, unused: x * 2, (x, unused))
    fn = make_graphed_callables(lambda x, unused: x * 2, (x, unused), allow_unused_input=True)
    fn(x, unused).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert unused.grad is None


def test_graphing_a_module_leaves_its_buffers_alone(device: str) -> None:
    norm = make_graphed_callables(nn.BatchNorm1d(4).to(device), (torch.randn(5, 4, device=device),))
    assert norm.num_batches_tracked == 0
    assert norm.running_mean.tolist() == [0, 0, 0, 0]
    norm(torch.ones(5, 4, device=device))
    assert norm.num_batches_tracked == 1
    assert_same(norm.running_mean, torch.full((4,), 0.1, device=device))


def test_a_module_in_another_mode_runs_ungraphed(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(device)
    x = torch.randn(2, 4, device=device)
    make_graphed_callables(model, (x,))
    model.eval()
    assert_same(model(x), model[0](x))
    model.train()
    torch.manual_seed(5)
    got = model(x)
    torch.manual_seed(5)
    assert_same(got, F.dropout(model[0](x)))
