"""Option target "cuda:N" of gex.es, and so of the C interface: arrays of the host in and out."""

from __future__ import annotations

import numpy as np
import pytest

from gex import es


def net() -> es.Graph:
    builder = es.EsGraphBuilder("net")
    x = builder.CreateInput(0, "x", "f32", ["rows", 64])
    w = builder.CreateInput(1, "w", "f32", [64, 48])
    return builder.Build([es.softmax(es.matmul(x, w), axis=1), es.transpose(x, perm=[1, 0])])


def test_results_are_those_of_the_cpu() -> None:
    random = np.random.default_rng(0)
    gpu, cpu = net().compile(target="cuda:0"), net().compile(target="cpu")
    weights = random.standard_normal((64, 48), np.float32)
    for rows in (5, 200, 5, 33, 1):
        x = random.standard_normal((rows, 64), np.float32)
        for got, expected in zip(gpu.run([x, weights]), cpu.run([x, weights])):
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-5)


def test_variables_are_written_in_memory_of_the_host() -> None:
    builder = es.EsGraphBuilder("counter")
    x = builder.CreateInput(0, "x", "f32", [4])
    total = builder.CreateVariable(1, "total", "f32", [4])
    program = builder.Build([es.assign(total, total + x) * 2.0]).compile(target="cuda:0")
    sums = np.zeros(4, np.float32)
    for step in range(1, 4):
        (twice,) = program.run([np.ones(4, np.float32), sums])
        assert twice.tolist() == [2 * step] * 4
        assert sums.tolist() == [step] * 4


def test_indices_out_of_range_are_errors() -> None:
    builder = es.EsGraphBuilder("gather")
    x = builder.CreateInput(0, "x", "f32", [5, 2])
    i = builder.CreateInput(1, "i", "i64", ["n"])
    program = builder.Build([es.index(x, [i], axes=[0])]).compile(target="cuda:0")
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    (got,) = program.run([table, np.array([4, 0])])
    assert got.tolist() == [[8, 9], [0, 1]]
    with pytest.raises(es.EsError):
        program.run([table, np.array([4, 5])])


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(es.EsError, match="target cuda:99 can't be used here"):
        net().compile(target="cuda:99")
