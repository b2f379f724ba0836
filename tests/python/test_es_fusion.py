"""Graphs built by hand: the expected number of kernels, with PyTorch's numbers."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from gex import es


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def statistics(channels: int) -> list[torch.Tensor]:
    """Scale, shift, mean and variance of a batch norm."""
    scale, shift, mean, variance = numbers(4, channels)
    return [scale, shift, mean, variance.abs() + 0.5]


def conv_norm(x: es.TensorHolder, weight: torch.Tensor) -> es.TensorHolder:
    y = es.conv2d(x, weight.numpy(), padding=[1, 1])
    return es.batch_norm(y, *statistics(weight.shape[0]), eps=1e-5)


def torch_conv_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    scale, shift, mean, variance = statistics(weight.shape[0])
    y = F.conv2d(x, weight, padding=1)
    return F.batch_norm(y, mean, variance, scale, shift, eps=1e-5)


def conv_bn_relu():
    x, weight = numbers(2, 3, 9, 9), numbers(8, 3, 3, 3)
    builder = es.EsGraphBuilder("conv_bn_relu")
    given = builder.CreateInput(0, "x", "f32", ["batch", 3, 9, 9])
    graph = builder.Build([es.relu(conv_norm(given, weight))])
    return graph, [x], F.relu(torch_conv_norm(x, weight)), 1


def resnet_block():
    x, first = numbers(1, 8, 7, 7), numbers(8, 8, 3, 3)
    second = first.flip(0)
    builder = es.EsGraphBuilder("resnet_block")
    given = builder.CreateInput(0, "x", "f32", [1, 8, 7, 7])
    inner = es.relu(conv_norm(given, first))
    graph = builder.Build([es.relu(conv_norm(inner, second) + given)])
    expected = F.relu(torch_conv_norm(F.relu(torch_conv_norm(x, first)), second) + x)
    return graph, [x], expected, 2


def matmul_add_gelu():
    x, weight, bias = numbers(5, 16), numbers(16, 12), numbers(12)
    builder = es.EsGraphBuilder("matmul_add_gelu")
    given = builder.CreateInput(0, "x", "f32", ["rows", 16])
    graph = builder.Build([es.gelu(given @ weight.numpy() + bias.numpy())])
    return graph, [x], F.gelu(x @ weight + bias), 1


def attention():
    q, k, v, mask = (
        numbers(1, 2, 6, 8),
        numbers(1, 2, 7, 8),
        numbers(1, 2, 7, 8),
        numbers(1, 1, 6, 7),
    )
    builder = es.EsGraphBuilder("attention")
    inputs = [
        builder.CreateInput(i, None, "f32", list(t.shape)) for i, t in enumerate((q, k, v, mask))
    ]
    scores = inputs[0] @ es.transpose(inputs[1], perm=[0, 1, 3, 2]) * (1 / math.sqrt(8))
    graph = builder.Build([es.softmax(scores + inputs[3], axis=-1) @ inputs[2]])
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return graph, [q, k, v, mask], expected, 1


@pytest.mark.parametrize("case", [conv_bn_relu, resnet_block, matmul_add_gelu, attention])
def test_one_kernel_if_possible(case):
    graph, inputs, expected, kernels = case()
    program = graph.compile()
    (got,) = program.run(inputs)
    assert program.counters()["launches"] == kernels, program.print("kernels")
    torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-4, atol=1e-5)
