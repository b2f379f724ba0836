"""Programs of gex.es: options, results in given memory, asynchronous calls, files; errors."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gex import es
from gex._gex import wait_for_background


def linear(rows: int | str = "rows") -> es.Graph:
    builder = es.EsGraphBuilder("linear")
    x = builder.CreateInput(0, "x", "f32", [rows, 4])
    return builder.Build([es.gelu(x @ np.arange(12, dtype=np.float32).reshape(4, 3)) + 1])


def values(rows: int) -> np.ndarray:
    return np.linspace(-1, 1, rows * 4, dtype=np.float32).reshape(rows, 4)


def test_results_are_written_to_given_arrays() -> None:
    program = linear().compile()
    (want,) = program.run([values(5)])
    memory = np.zeros((5, 3), np.float32)
    (got,) = program.run([values(5)], [memory])
    assert got is memory
    np.testing.assert_array_equal(memory, want)
    with pytest.raises(es.EsError, match=r"f32\[5, 3\].*f32\[4, 3\]|f32\[4, 3\].*f32\[5, 3\]"):
        program.run([values(5)], [np.zeros((4, 3), np.float32)])
    memory.flags.writeable = False
    with pytest.raises(ValueError, match="output 0 can't be written"):
        program.run([values(5)], [memory])


def test_asynchronous_runs_call_back_in_order() -> None:
    program = linear().compile()
    seen: list[tuple[int, bool]] = []

    def callback(results: list[np.ndarray] | None, error: Exception | None) -> None:
        assert threading.current_thread() is not threading.main_thread()
        seen.append((-1 if results is None else len(results[0]), error is None))

    futures = [program.run_async([values(rows)], callback) for rows in (1, 2, 3)]
    wrong = program.run_async([np.zeros((2, 5), np.float32)], callback)
    for rows, future in zip((1, 2, 3), futures):
        np.testing.assert_array_equal(future.result()[0], program.run([values(rows)])[0])
    with pytest.raises(es.EsError, match=r"f32\[2, 5\]"):
        wrong.result()
    assert seen == [(1, True), (2, True), (3, True), (-1, False)]
    with pytest.raises(es.EsError, match="input 0 has type"):
        program.run_async([[1.0, 2.0]])


def test_a_destroyed_program_waits_for_its_asynchronous_runs() -> None:
    futures = [linear().compile().run_async([values(rows)]) for rows in (8, 9)]
    gc.collect()
    assert [f.result(timeout=60)[0].shape for f in futures] == [(8, 3), (9, 3)]


def test_passes_are_switched_by_name_and_by_file(tmp_path: Path) -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [4])
    graph = builder.Build([es.exp(x) + es.exp(x)])

    def merged(**options: Any) -> str | None:
        (passes,) = json.loads(graph.compile(**options).print("passes")).values()
        return passes["graph_fusion"].get("cse", {}).get("effect_times")

    assert merged() == "1"
    assert merged(level=0) is None
    assert merged(level=0, enabled_passes=["cse"]) == "1"
    assert merged(disabled_passes=["cse"]) is None
    switches = tmp_path / "switches.json"
    switches.write_text('{"cse": "off"}')
    assert merged(switch_file=switches) is None


def test_writing_in_place_can_be_switched_off() -> None:
    builder = es.EsGraphBuilder("g")
    v = builder.create_variable(0, "v", "f32", [4])
    es.assign(v, v + 1)
    graph = builder.Build([])
    assert "in_place: 1" in graph.compile().report()
    aside = graph.compile(in_place_temps=False, in_place_inputs=False)
    assert "in_place" not in aside.report()
    memory = np.zeros(4, np.float32)
    aside.run([memory])
    np.testing.assert_array_equal(memory, np.ones(4, np.float32))


def test_computing_operands_can_be_switched_off(tmp_path: Path) -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.create_input(0, name="x", shape=[16, 24])
    w = builder.create_input(1, name="w", shape=[24, 32])
    graph = builder.Build([es.matmul(es.relu(x), w)])
    inputs = [np.random.randn(16, 24).astype("f4"), np.random.randn(24, 32).astype("f4")]
    want = np.maximum(inputs[0], 0) @ inputs[1]
    for program, computed in ((graph.compile(), True), (graph.compile(prologues=False), False)):
        assert ("prologues: 1" in program.report()) == computed
        program.save(tmp_path / "program")
        for either in (program, es.Program.load(tmp_path / "program")):
            np.testing.assert_allclose(either.run(inputs)[0], want, rtol=1e-4, atol=1e-5)


def test_independent_steps_are_spread_over_streams() -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [64, 64])
    sums = [es.reduce_sum(es.matmul(x, x * float(k + 1)), axes=[1]) for k in range(2)]
    graph = builder.Build([es.cat(sums, axis=0)])
    spread = graph.compile(streams=2)
    assert "streams 2\n" in spread.print("program")
    assert "streams" not in graph.compile().print("program").splitlines()[1]
    array = np.random.default_rng(0).random((64, 64), np.float32)
    np.testing.assert_array_equal(spread.run([array])[0], graph.run([array])[0])
    with pytest.raises(es.EsError, match="takes a whole number from 0 to 64"):
        graph.compile(streams=65)


def test_autotune_measures_candidates_for_hot_matmuls() -> None:
    program = linear().compile(autotune=True)
    plain = linear().compile()
    for _ in range(8):
        np.testing.assert_allclose(program.run([values(32)])[0], plain.run([values(32)])[0], 1e-5)
    wait_for_background()
    assert "tuned: 1x1x32x3x4 matmul" in program.report()
    assert "tuned" not in plain.report()


LOAD = """
import sys
import numpy as np
from gex import es
program = es.Program.load(sys.argv[1])
np.save(sys.argv[2], program.run([np.load(sys.argv[3])])[0])
"""


def test_a_saved_program_runs_in_another_process_without_its_custom_op(tmp_path: Path) -> None:
    @es.register_op("test.saved_twice")
    def twice(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor

    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", ["rows", 4])
    program = builder.Build([es.softmax(twice(x, factor=3.0), axis=-1)]).compile()
    program.save(tmp_path / "program.gexp")
    np.save(tmp_path / "in.npy", values(7))
    paths = [str(tmp_path / name) for name in ("program.gexp", "out.npy", "in.npy")]
    subprocess.run([sys.executable, "-c", LOAD, *paths], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), program.run([values(7)])[0])
    (tmp_path / "garbage").write_bytes(b"GEXART\r\n" + b"\x00" * 100)
    with pytest.raises(es.EsError, match="garbage' is not a compiled program"):
        es.Program.load(tmp_path / "garbage")
    with pytest.raises(es.EsError, match="there is no such file"):
        es.Program.load(tmp_path / "absent")


@pytest.mark.parametrize("dtype", ["i64", "f32"])
def test_the_remainder_belongs_to_the_division(dtype: str) -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", dtype, [4])
    quotient = x / 2 if dtype == "i64" else es.trunc_div(x, 2)
    program = builder.Build([quotient, x % 2, 7 % x, es.floor_div(x, 2), es.mod(x, 2)]).compile()
    given = np.array([-7, 7, -8, 3], np.int64 if dtype == "i64" else np.float32)
    quotients, rest, of_seven, floored, positive = program.run([given])
    assert rest.tolist() == [-1, 1, 0, 1] and of_seven.tolist() == [0, 0, 7, 1]
    np.testing.assert_array_equal(quotients * 2 + rest, given)
    np.testing.assert_array_equal(floored * 2 + positive, given)
    assert positive.tolist() == [1, 1, 0, 1]


def test_comparisons_are_nodes_and_a_tensor_has_no_truth() -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [3])
    graph = builder.Build([x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1])
    array = np.float32([0, 1, 2])
    for got, want in zip(
        graph.run([array]),
        (array < 1, array <= 1, array > 1, array >= 1, array == 1, array != 1),
    ):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(TypeError, match="if_ and while_"):
        bool(x)
    assert len({x, x}) == 1
    assert repr(x) == "TensorHolder(of the built graph 'g')"


def test_arrays_take_the_requested_shape_and_dtype() -> None:
    builder = es.EsGraphBuilder("g")
    array = np.arange(6, dtype=np.float32)
    assert builder.CreateConst(array, [2, 3]).type == "f32[2, 3]"
    assert builder.CreateConst(array, dtype="f16").type == "f16[6]"
    assert builder.CreateConst(array.reshape(2, 3), dtype="i64").type == "i64[2, 3]"
    assert builder.create_const_int32(np.array([1, 2])).type == "i32[2]"
    with pytest.raises(ValueError, match=r"6 values for the shape \[4\], which has 4"):
        builder.CreateConst(array, [4])
    with pytest.raises(ValueError, match=r"0\.5"):
        builder.CreateConst(array / 2, dtype="i64")


@pytest.mark.parametrize("size", [float("nan"), 2.0, None, [3]])
def test_sizes_that_are_not_integers_are_reported(size: object) -> None:
    builder = es.EsGraphBuilder("g")
    with pytest.raises(TypeError, match=r"size 1 of the shape is .*; sizes are integers"):
        builder.CreateInput(0, "x", "f32", [2, size])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        builder.CreateInput(0, "x", "f32", [10**30])
    assert builder.CreateInput(0, "x", "f32", [np.int32(2)]).type == "f32[2]"


def test_arguments_that_are_not_tensors_are_reported() -> None:
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [3])
    with pytest.raises(TypeError, match="output 0 of 'g' returns 'a'"):
        builder.SetOutput("a", 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a control edge returns 3"):
        es.relu(x).add_control_edge([3])  # type: ignore[list-item]
    with pytest.raises(es.EsError, match=r"the constant has type .*ndarray.*array of numbers"):
        builder.CreateConst(np.array([None]))
    program = builder.Build([es.relu(x)]).compile()
    with pytest.raises(es.EsError, match=r"input 0 has type .*list.*; expected a NumPy array"):
        program.run([[1.0, 2.0, 3.0]])
    with pytest.raises(TypeError, match="expected a list of arrays, got NoneType"):
        program.run(None)  # type: ignore[arg-type]
