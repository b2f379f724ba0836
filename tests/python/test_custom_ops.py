"""Ops that users define in Python, composed of others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gex import es, passes

_names = (f"test_custom.op{k}" for k in itertools.count())


def run(graph: es.Graph, *arrays: np.ndarray, **options: object) -> list[np.ndarray]:
    return [np.asarray(y) for y in graph.compile(**options).run(list(arrays))]


def test_an_op_with_attributes_and_an_absent_input() -> None:
    name = next(_names)

    @es.register_op(name)
    def leaky(x, scale=None, *, slope: float = 0.25, shift: int = 0, kind: str = "plain"):
        """x where it is positive."""
        y = es.where(es.gt(x, 0), x, x * slope) + float(shift)
        if kind == "negative":
            y = -y
        return y if scale is None else y * scale

    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", ["s0", 4])
    scale = builder.CreateInput(1, "scale", "f32", [4])
    graph = builder.Build([leaky(x), leaky(x, scale, slope=0.5, shift=3, kind="negative")])
    text = graph.print()
    assert f"{name}(%x, none) : f32[s0, 4]" in text
    assert 'slope = 0.5, shift = 3, kind = "negative"' in text
    assert es.Graph.parse(text).print() == text
    a = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    b = np.arange(4, dtype=np.float32)
    for options in ({}, {"generate_code": False}, {"level": 0, "fuse": False}):
        plain, scaled = run(graph, a, b, **options)
        np.testing.assert_allclose(plain, np.where(a > 0, a, a * 0.25))
        np.testing.assert_allclose(scaled, -(np.where(a > 0, a, a * 0.5) + 3) * b)
    program = graph.compile()
    program.run([a, b])
    assert program.counters()["launches"] == 1
    assert leaky.__doc__ == "x where it is positive."


def test_lists_sizes_dtypes_and_any_number_of_inputs() -> None:
    name = next(_names)

    @es.register_op(name)
    def joined(*xs, shape: list = [1], dtype: es.DType = es.DType.f32, weights: list = [0.5]):  # noqa: B006
        assert len(weights) == len(xs) and isinstance(dtype, es.DType)
        total = sum((x * w for x, w in zip(xs[1:], weights[1:])), xs[0] * weights[0])
        return es.reshape(es.cast(total, dtype=dtype), shape=shape), total

    builder = es.EsGraphBuilder("g")
    xs = [builder.CreateInput(k, f"x{k}", "f32", [6]) for k in range(3)]
    flat, total = joined(*xs, shape=[2, 3], dtype=es.DType.f64, weights=[1.0, 2.0, 3.5])
    assert flat.type == "f64[2, 3]" and total.type == "f32[6]"
    arrays = [np.full(6, k + 1, np.float32) for k in range(3)]
    got, _ = run(builder.Build([flat, total]), *arrays)
    np.testing.assert_array_equal(got, np.full((2, 3), 15.5))


def test_errors_in_an_op_name_it() -> None:
    name = next(_names)

    @es.register_op(name)
    def halves(x, *, parts: int = 2):
        if parts < 1:
            raise ValueError(f"parts is {parts}")
        return x / float(parts) if parts < 9 else 3

    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [4])
    with pytest.raises(ValueError, match=rf"{name}.*parts is 0"):
        halves(x, parts=0)
    with pytest.raises(ValueError, match="returns 3; it must return tensors"):
        halves(x, parts=9)
    with pytest.raises(ValueError, match="parts"):
        halves(x, parts="two")
    with pytest.raises(TypeError, match="patrs"):
        halves(x, patrs=2)
    with pytest.raises(ValueError, match="already registered"):
        es.register_op(name)(lambda x: x)
    (y,) = run(builder.Build([halves(x)]), np.ones(4, np.float32))
    np.testing.assert_array_equal(y, np.full(4, 0.5))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, *, slope: x, "'slope' needs a default"),
        (lambda x, y=3: x, "'y' has a default other than None"),
        (lambda x, **rest: x, r"\*\*rest"),
        (lambda x, *, table=...: x, "table"),
    ],
)
def test_invalid_declarations(function, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        es.register_op(next(_names))(function)


def test_a_pass_may_make_nodes_of_it() -> None:
    name = next(_names)

    @es.register_op(name)
    def cube(x, *, times: float = 1.0):
        return x * x * x * times

    @passes.register_fusion_pass("test-cubes", stage=passes.PassStage.EARLY)
    class Cubes(passes.PatternPass):
        @passes.pattern
        def cubed(self, inputs):
            return inputs[0] * inputs[0] * inputs[0]

        def replacement(self, inputs):
            return cube(inputs[0], times=2.0)

    try:
        builder = es.EsGraphBuilder("g")
        x = builder.CreateInput(0, "x", "f32", [4])
        (y,) = run(builder.Build([x * x * x]), np.full(4, 3, np.float32))
    finally:
        passes.unregister("test-cubes")
    np.testing.assert_array_equal(y, np.full(4, 54))


# --- bodies in loop text --------------------------------------------------------------------------

SWISH = """symbols n, m
kernel swish(x: in f32[n, m], s: in f32[m], y: out f32[n, m]) grid(i < n, j < m) {
  stage {
    v0 = load x[i, j] : f32
    v1 = load s[j] : f32
    v2 = mul v0, v1 : f32
    v3 = sigmoid v2 : f32
    v4 = mul v0, v3 : f32
    store y[i, j] = v4
  }
}
"""


def test_a_body_in_loop_text_fuses_with_its_neighbours() -> None:
    swish = es.register_loop_op(next(_names), SWISH, "x * sigmoid(s * x)")
    assert swish.__doc__ == "x * sigmoid(s * x)"
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", ["s0", 4])
    scale = builder.CreateInput(1, "scale", "f32", [4])
    graph = builder.Build([es.tanh(swish(x + 1.0, scale)) * 2.0])
    assert es.Graph.parse(graph.print()).print() == graph.print()
    a = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    b = np.linspace(0, 1, 4, dtype=np.float32)
    expected = np.tanh((a + 1) / (1 + np.exp(-(a + 1) * b))) * 2
    for options in ({}, {"generate_code": False}, {"level": 0, "fuse": False}):
        np.testing.assert_allclose(run(graph, a, b, **options)[0], expected, rtol=1e-5, atol=1e-6)
    program = graph.compile()
    program.run([a, b])
    assert program.counters()["launches"] == 1


def test_a_body_in_loop_text_with_two_results() -> None:
    name = next(_names)
    both = es.register_loop_op(
        name,
        """symbols n
kernel both(x: in f32[n], low: out f32[n], high: out i64[n]) grid(i < n) {
  stage {
    v0 = load x[i] : f32
    v1 = const 0.5 : f32
    v2 = sub v0, v1 : f32
    v3 = index n - 1 - i
    v4 = cast v2 : i64
    v5 = add v3, v4 : i64
    store low[i] = v2
    store high[i] = v5
  }
}
""",
    )
    builder = es.EsGraphBuilder("g")
    graph = builder.Build(both(builder.CreateInput(0, "x", "f32", ["n"])))
    low, high = run(graph, np.array([1, 2.5, 4], np.float32))
    np.testing.assert_array_equal(low, [0.5, 2, 3.5])
    np.testing.assert_array_equal(high, [2, 3, 3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("load x[i, j]", "load x[i, j + 1]"), "can't be proven to be less than m"),
        (("store y[i, j]", "store y[i, 0]"), "at the indices of the grid"),
        (("symbols n, m", "symbols n, m, k"), None),
        (("v1 = load s[j]", "v1 = load y[i, j]"), "loads from its output|reads"),
        (("grid(i < n, j < m)", "grid(i < n)"), "j"),
        (("kernel swish", "colonel swish"), "colonel|kernel"),
    ],
)
def test_loop_texts_are_checked(change: tuple[str, str], message: str | None) -> None:
    text = SWISH.replace(*change)
    assert text != SWISH
    if message is None:
        es.register_loop_op(next(_names), text)
        return
    with pytest.raises(es.EsError, match=message):
        es.register_loop_op(next(_names), text)


def test_operands_of_a_loop_text_are_checked() -> None:
    swish = es.register_loop_op(next(_names), SWISH)
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [2, 4])
    with pytest.raises(es.EsError, match="axis 0 must have the size 4"):
        swish(x, builder.CreateInput(1, "s", "f32", [3]))
    with pytest.raises(es.EsError, match="f32 with 2 axes"):
        swish(builder.CreateInput(2, "y", "f32", [4]), builder.CreateInput(3, "t", "f32", [4]))
    with pytest.raises(es.EsError, match="already"):
        name = next(_names)
        es.register_loop_op(name, SWISH)
        es.register_loop_op(name, SWISH)
