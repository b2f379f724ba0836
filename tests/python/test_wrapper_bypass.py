"""Bypass of AOTAutograd's wrappers: used if nothing unusual is needed."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef

from conftest import TORCH, assert_same, last_report


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def compiled(function, **options):
    return torch.compile(function, backend="npugraph_ex", fullgraph=True, **options)


def is_short(output: torch.Tensor) -> bool:
    return type(output.grad_fn).__name__ == "CompiledNodeBackward"


def warm(function, *inputs) -> None:
    """The backward is compiled with the first one."""
    function(*inputs).sum().backward()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters()]


def test_training_bypasses_the_wrapper_from_the_second_call():
    model, x = small_model(), torch.randn(4, 6)
    expected = copy.deepcopy(model)
    step = compiled(model)
    warm(step, x)
    model.zero_grad()
    output = step(x)
    assert is_short(output)
    output.square().sum().backward()
    expected(x).square().sum().backward()
    torch.testing.assert_close(gradients(model), gradients(expected))


def test_backward_twice_with_retain_graph_adds_up():
    model, x = small_model(), torch.randn(4, 6)
    step = compiled(model)
    warm(step, x)
    model.zero_grad()
    loss = step(x).square().sum()
    loss.backward(retain_graph=True)
    once = [g.clone() for g in gradients(model)]
    loss.backward()
    torch.testing.assert_close(gradients(model), [2 * g for g in once])


def test_second_backward_without_retain_graph_is_an_error():
    model, x = small_model(), torch.randn(4, 6)
    step = compiled(model)
    warm(step, x)
    loss = step(x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_gradients_of_gradients_are_refused():
    model, x = small_model(), torch.randn(4, 6, requires_grad=True)
    step = compiled(model)
    warm(step, x)
    (gradient,) = torch.autograd.grad(step(x).square().sum(), x, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_changing_a_saved_input_before_backward_is_an_error_as_in_eager():
    weight = torch.randn(3, 3, requires_grad=True)
    step = compiled(lambda x, w: (x * w).sin())
    x = torch.randn(3, 3)
    warm(step, x, weight)
    output = step(x, weight)
    assert is_short(output)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_output_without_gradient_has_none():
    weight = torch.randn(5, requires_grad=True)
    step = compiled(lambda w: (w * 2, w.argmax(), w.detach() + 1))
    step(weight)[0].sum().backward()
    doubled, largest, shifted = step(weight)
    assert is_short(doubled)
    assert not largest.requires_grad and not shifted.requires_grad
    torch.testing.assert_close(shifted, weight.detach() + 1)
    weight.grad = None
    doubled.sum().backward()
    torch.testing.assert_close(weight.grad, torch.full((5,), 2.0))


def test_only_one_of_two_outputs_is_used():
    weight = torch.randn(5, requires_grad=True)
    step = compiled(lambda w: (w.sin(), w.exp()))
    sum(o.sum() for o in step(weight)).backward()
    weight.grad = None
    _, second = step(weight)
    assert is_short(second)
    second.sum().backward()
    torch.testing.assert_close(weight.grad, weight.detach().exp())


class Passing(torch.autograd.Function):
    """If a gradient were requested, it would return zeros where there is none."""

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient


def test_input_that_has_no_influence_gets_no_gradient():
    used, unused = (torch.randn(5, requires_grad=True) for _ in range(2))
    step = compiled(lambda a, b: a.sin() + b.detach())
    warm(step, used, unused)
    output = step(used, Passing.apply(unused))
    assert is_short(output)
    output.sum().backward()
    assert unused.grad is None


@pytest.mark.parametrize("backend", ["npugraph_ex", "npugraphs"])
def test_gradient_of_another_layout_than_traced(backend):
    weight = torch.randn(24, requires_grad=True)
    step = torch.compile(lambda w: w.sin().view(4, 6), backend=backend, fullgraph=True)
    warm(step, weight)
    weight.grad = None
    output = step(weight)
    assert is_short(output)
    by_columns = torch.randn(6, 4).t()  # the backward graph views it as [24]
    output.backward(by_columns)
    torch.testing.assert_close(weight.grad, by_columns.reshape(24) * weight.detach().cos())


def test_contiguous_gradient_of_a_result_that_is_not():
    x = torch.randn(4, 6, requires_grad=True)

    def turned(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sin().t() * 2

    step = compiled(turned)
    gradient = torch.randn(6, 4)
    for _ in range(3):
        result = step(x)
        assert not result.is_contiguous()
        result.backward(gradient)
        expected = torch.autograd.grad(turned(x), x, gradient)[0]
        torch.testing.assert_close(x.grad, expected)
        x.grad = None
    assert is_short(step(x))


def test_buffers_are_written_and_their_version_counts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
    expected = copy.deepcopy(model)
    x = torch.randn(5, 6)
    step = compiled(model)
    warm(step, x)
    expected(x)
    version = model[1].running_mean._version
    output = step(x)
    expected(x)
    assert is_short(output)
    assert model[1].running_mean._version > version
    torch.testing.assert_close(model[1].running_mean, expected[1].running_mean)
    torch.testing.assert_close(model[1].num_batches_tracked, expected[1].num_batches_tracked)


def test_saved_sizes_of_dynamic_graphs():
    step = compiled(lambda w: (w * w.shape[0]).sum(0) / w.shape[1], dynamic=True)
    for rows in (3, 7, 5):
        weight = torch.randn(rows, 4, requires_grad=True)
        output = step(weight)
        output.sum().backward()
        torch.testing.assert_close(weight.grad, torch.full((rows, 4), rows / 4))
    assert is_short(output)


def test_hooks_on_saved_tensors_are_called():
    weight = torch.randn(5, requires_grad=True)
    step = compiled(lambda w: w.sin())
    warm(step, weight)
    weight.grad = None
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        output = step(weight)
    output.sum().backward()
    assert packed
    torch.testing.assert_close(weight.grad, weight.detach().cos())


def test_views_of_inputs_and_mutated_inputs_use_the_wrapper():
    weight = torch.randn(4, requires_grad=True)
    for function in (lambda w: w.view(2, 2), lambda w: (w * 2).view(2, 2).t()):
        step = compiled(function)
        for _ in range(3):
            output = step(weight)
        torch.testing.assert_close(output, function(weight))
        weight.grad = None
        output.sum().backward()
        assert weight.grad is not None


def test_inference_bypasses_the_wrapper_but_not_inside_gradients():
    model, x = small_model().requires_grad_(False), torch.randn(4, 6)
    step = compiled(model)
    expected = model(x)
    with torch.no_grad():
        torch.testing.assert_close(step(x), expected)
        torch.testing.assert_close(step(x), expected)
    torch.testing.assert_close(step(x), expected)
    with torch.inference_mode():
        torch.testing.assert_close(step(x), expected)


def test_gradient_penalty_inside_functorch_is_right():
    weight = torch.randn(5)
    step = torch.compile(lambda w: (w.sin() * w).sum(), backend="npugraph_ex")
    step(weight.requires_grad_()).backward()
    step(weight).backward()
    with torch.no_grad():
        given = torch.func.grad(step)(weight.detach())
    torch.testing.assert_close(given, torch.func.grad(lambda w: (w.sin() * w).sum())(weight))


def test_tensor_that_outlived_its_transform_is_unwrapped():
    weight = torch.randn(4, 6, requires_grad=True)
    step = compiled(lambda x, w: x * w)
    warm(step, torch.randn(4, 6), weight)
    left_behind = []
    x = torch.randn(4, 6)
    torch.func.grad(lambda x: (left_behind.append(x), x.sum())[1])(x)
    for _ in range(2):
        weight.grad = None
        output = step(left_behind[0], weight)
        output.sum().backward()
    assert is_short(output)
    torch.testing.assert_close(output, x * weight)
    torch.testing.assert_close(weight.grad, x)
    torch.testing.assert_close(step(x, weight), x * weight)


class Boxed(torch.Tensor):
    """A tensor around one other, as DTensor is."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Boxed:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return "Boxed"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Boxed(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        args, kwargs = torch.utils._pytree.tree_map_only(
            Boxed, lambda boxed: boxed.inner, (args, kwargs or {})
        )
        result = op(*args, **kwargs)
        return torch.utils._pytree.tree_map_only(torch.Tensor, Boxed, result)


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_tensor_subclasses_as_arguments_and_results(dynamic: bool):
    step = compiled(lambda x: x * 2 + 1, dynamic=dynamic)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        result = step(Boxed(x))
        assert type(result) is Boxed
        torch.testing.assert_close(result.inner, x * 2 + 1)


@torch.no_grad()
def test_tensor_subclasses_may_be_made_inside():
    @torch._dynamo.allow_in_graph
    def boxed(x: torch.Tensor) -> torch.Tensor:
        return Boxed(x)

    step = compiled(lambda x: boxed(x * 2) + 1)
    x = torch.randn(3, 4)
    result = step(x)
    assert type(result) is Boxed
    torch.testing.assert_close(result.inner, x * 2 + 1)


def test_tangents_of_forward_mode_are_propagated():
    def function(x):
        return x.sin() * x

    run = torch.compile(function, backend="gex")
    x, direction = torch.randn(5), torch.randn(5)
    assert_same(run(x), function(x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        got, expected = (forward_ad.unpack_dual(f(dual)) for f in (run, function))
    assert_same([*got], [*expected])
    assert last_report().eager_reason is not None
    assert_same(run(x), function(x))


@torch.library.custom_op("gex_plain_graphs::looked_at", mutates_args=())
def looked_at(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@looked_at.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("gex_plain_graphs::look", mutates_args=())
def look(gradient: torch.Tensor) -> torch.Tensor:
    seen.extend(given.expired() for given in with_call_hooks)
    return gradient.clone()


@look.register_fake
def _(gradient: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


looked_at.register_autograd(lambda _, gradient: look(gradient))
with_call_hooks: list[StorageWeakRef] = []
seen: list[bool] = []


@pytest.mark.skipif(TORCH < (2, 13), reason="this version's engine keeps gradients until the end")
def test_a_given_gradient_is_freed_once_it_was_read():
    """It is the largest value of a training step if the model ends in many classes."""
    first, last = nn.Linear(8, 8), nn.Linear(8, 512)  # 2 MiB: enough to be freed before the end
    step = compiled(lambda x: last(looked_at(first(x))))
    x = torch.randn(1024, 8)
    warm(step, x)
    output = step(x)
    assert is_short(output)
    gradient = torch.randn_like(output)
    with_call_hooks[:] = [StorageWeakRef(gradient.untyped_storage())]
    seen.clear()
    given = [gradient]
    del gradient
    output.register_hook(lambda _: given.pop())
    output.sum().backward()
    assert seen == [True]
