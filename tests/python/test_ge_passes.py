"""Acceptance cases on user passes, written in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gex
from gex import es, passes


@pytest.fixture(autouse=True)
def no_passes_left() -> Iterator[None]:
    yield
    passes.clear_registered_passes()


def adds(number: float) -> es.Graph:
    builder = es.EsGraphBuilder("adds")
    x = builder.CreateInput(0, "x", "f32", [4])
    return builder.Build([x + number])


def statistics(program: es.Program, name: str) -> dict[str, str] | None:
    (graph,) = json.loads(program.print("passes")).values()
    return graph["graph_fusion"].get(name)


def register_add_zero(name: str = "py-add-zero") -> None:
    @passes.register_fusion_pass(name, stage=passes.PassStage.BEFORE_INFER_SHAPE)
    class AddZero(passes.PatternPass):
        """x + 0 -> x"""

        any_constants = True

        @passes.pattern
        def add(self, inputs: Any) -> Any:
            return inputs[0] + inputs.capture(inputs.builder.CreateScalar(7.0))

        def meet_requirements(self, match: passes.Match) -> bool:
            return passes.constant(match.captured(0)) == 0

        def replacement(self, inputs: list[Any]) -> Any:
            return inputs[0]


def test_case_35_a_pattern_pass_replaces_and_is_counted() -> None:
    register_add_zero()
    zero = adds(0.0).compile()
    assert "add(" not in zero.print("graph")
    assert statistics(zero, "py-add-zero") == {"match_times": "1", "effect_times": "1"}
    one = adds(1.0).compile()
    assert "add(" in one.print("graph")
    assert statistics(one, "py-add-zero") == {"match_times": "1", "effect_times": "0"}
    (result,) = zero.run([np.arange(4, dtype=np.float32)])
    assert result.tolist() == [0, 1, 2, 3]


def test_case_35_torch_compile_uses_the_passes(device: str) -> None:
    torch._dynamo.reset()
    register_add_zero()
    with gex.collect() as graphs:
        x = torch.randn(4, device=device)
        assert torch.equal(torch.compile(lambda v: (v + 0.0) * 2, backend="gex")(x), x * 2)
    assert graphs[0].runner.counters["pass.py-add-zero"] == 1


def test_case_36_constants_and_attributes_must_be_equal() -> None:
    @passes.register_fusion_pass("py-exact")
    class Exact(passes.PatternPass):
        @passes.pattern
        def add(self, inputs: Any) -> Any:
            return inputs[0] + 0.0

        @passes.pattern
        def turn(self, inputs: Any) -> Any:
            return -es.transpose(inputs.typed(0, [2, 3, 4]), perm=[0, 2, 1])

        def replacement(self, inputs: list[Any], match: passes.Match) -> Any:
            return match.output()

    def matches(graph: es.Graph) -> str:
        found = statistics(graph.compile(), "py-exact")
        assert found is not None
        return found["match_times"]

    def turned(perm: list[int]) -> es.Graph:
        builder = es.EsGraphBuilder("turned")
        return builder.Build(
            [-es.transpose(builder.CreateInput(0, "x", "f32", [3, 3, 3]), perm=perm)]
        )

    assert matches(adds(0.0)) == "1"
    assert matches(adds(1.0)) == "0"
    assert matches(turned([0, 2, 1])) == "1"
    assert matches(turned([1, 0, 2])) == "0"


def test_case_39_a_wrong_replacement_names_pass_and_line() -> None:
    @passes.register_fusion_pass("py-wrong")
    class Wrong(passes.PatternPass):
        @passes.pattern
        def add(self, inputs: Any) -> Any:
            return inputs[0] + 0.0

        def replacement(self, inputs: list[Any]) -> Any:
            return inputs[1]

    graph = adds(0.0)
    before = graph.print()
    with pytest.raises(gex.UserError, match=r"pass py-wrong: IndexError: .*test_ge_passes\.py:\d+"):
        graph.compile()
    assert graph.print() == before


def test_case_40_a_grouped_convolution_is_taken_apart() -> None:
    def conv(groups: int) -> es.Graph:
        builder = es.EsGraphBuilder("conv")
        x = builder.CreateInput(0, "x", "f32", [1, 8, 5, 5])
        w = builder.CreateInput(1, "w", "f32", [8, 8 // groups, 3, 3])
        return builder.Build([es.conv2d(x, w, groups=groups)])

    arrays = [
        np.arange(200, dtype=np.float32).reshape(1, 8, 5, 5) % 7,
        np.arange(144, dtype=np.float32).reshape(8, 2, 3, 3) % 5,
    ]
    (want,) = conv(4).run(arrays)

    @passes.register_decompose_pass("py-ungroup", op_types=["conv2d"])
    class Ungroup(passes.DecomposePass):
        def meet_requirements(self, match: passes.Match) -> bool:
            return passes.attr(match.output(), "groups") > 1

        def replacement(self, inputs: list[Any], match: passes.Match) -> Any:
            groups = passes.attr(match.output(), "groups")

            def part(tensor: Any, axis: int, k: int) -> Any:
                sizes = list(tensor.shape)
                sizes[axis] //= groups
                starts = [0] * 4
                starts[axis] = k * sizes[axis]
                return es.slice(tensor, starts=starts, steps=[1] * 4, sizes=sizes)

            x, w = inputs
            return es.cat([es.conv2d(part(x, 1, k), part(w, 0, k)) for k in range(groups)], axis=1)

    program = conv(4).compile()
    text = program.print("graph")
    assert (text.count("conv2d("), text.count("slice("), text.count("cat(")) == (4, 8, 1)
    assert np.array_equal(program.run(arrays)[0], want)
    assert statistics(conv(1).compile(), "py-ungroup") == {"match_times": "1", "effect_times": "0"}


def test_a_graph_pass_edits_nodes() -> None:
    @passes.register_graph_pass("py-relu", stage=passes.PassStage.LATE)
    class ReluToMaximum(passes.GraphPass):
        def run(self, graph: passes.GraphEditor) -> bool:
            changed = False
            for node in graph.nodes():
                if passes.op(node) == "relu":
                    graph.insert_before(node)
                    graph.replace(node, es.maximum(passes.operands(node)[0], 0.0))
                    graph.erase(node)
                    changed = True
            return changed

    builder = es.EsGraphBuilder("g")
    program = builder.Build([-es.relu(builder.CreateInput(0, "x", "f32", [2]))]).compile()
    assert "relu(" not in program.print("graph") and "maximum(" in program.print("graph")
    assert program.run([np.array([-1, 3], dtype=np.float32)])[0].tolist() == [0, -3]


GOOD = """
from gex import passes

@passes.register_fusion_pass("{name}")
class Good(passes.PatternPass):
    @passes.pattern
    def p(self, inputs):
        return inputs[0] + 0.0
    def replacement(self, inputs):
        return inputs[0]
"""


def test_case_44_broken_files_are_named_and_others_work(tmp_path: Path) -> None:
    (tmp_path / "a_good.py").write_text(GOOD.format(name="py-file"))
    (tmp_path / "b_broken.py").write_text("def f(:\n")
    (tmp_path / "c_twice.py").write_text(GOOD.format(name="py-file"))
    (tmp_path / "d_good.py").write_text(GOOD.format(name="py-other"))
    (tmp_path / "_skipped.py").write_text("raise RuntimeError('not loaded')")
    missing = tmp_path / "missing.py"
    with pytest.raises(passes.PassLoadError) as error:
        passes.load(f"{tmp_path}:{missing}")
    message = str(error.value)
    assert "b_broken.py" in message and "SyntaxError" in message
    assert "c_twice.py" in message and "already exists" in message
    assert "missing.py: there is no such file" in message
    assert "a_good.py" not in message and "_skipped" not in message
    assert passes.get_registered_passes() == ["py-file", "py-other"]
    assert "add(" not in adds(0.0).compile().print("graph")


def test_case_44_the_environment_names_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(GOOD.format(name="py-environment"))
    monkeypatch.setenv("GEX_PASS_PATH", str(tmp_path / "mine.py"))
    assert statistics(adds(0.0).compile(), "py-environment") is not None
    monkeypatch.setenv("GEX_PASS_PATH", str(tmp_path / "mine.txt"))
    with pytest.raises(passes.PassLoadError, match=r"mine\.txt"):
        adds(0.0).compile()


def test_errors_in_classes_are_raised_where_they_are_made() -> None:
    with pytest.raises(TypeError, match="overrides run"):

        class Runs(passes.PatternPass):
            def run(self) -> None: ...

    with pytest.raises(ValueError, match="no method marked by @pattern"):

        @passes.register_fusion_pass("py-empty")
        class Empty(passes.PatternPass):
            def replacement(self, inputs: Any, match: Any) -> Any:
                return inputs[0]

    with pytest.raises(TypeError, match="does not derive from PatternPass"):

        @passes.register_fusion_pass("py-kind")
        class Kind(passes.GraphPass): ...

    with pytest.raises(TypeError, match="inputs\\[:3\\]"):

        @passes.register_fusion_pass("py-iterates")
        class Iterates(passes.PatternPass):
            @passes.pattern
            def p(self, inputs: Any) -> Any:
                return sum(inputs)

            def replacement(self, inputs: Any, match: Any) -> Any:
                return inputs[0]

    assert passes.get_registered_passes() == []


def test_torch_options_switch_passes(device: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * x

    def counters(**options: Any) -> dict[str, int]:
        torch._dynamo.reset()
        with gex.collect() as graphs:
            torch.compile(f, backend="gex", options=options)(torch.randn(4, device=device))
        return graphs[0].runner.counters

    assert counters()["pass.recognise-silu"] == 1
    assert "pass.recognise-silu" not in counters(disabled_passes=["recognise-silu"])
    assert "pass.recognise-silu" not in counters(opt_level=1)
    assert counters(opt_level=1, enabled_passes=["recognise-silu"])["pass.recognise-silu"] == 1
    with pytest.raises(Exception, match="did you mean 'recognise-silu'"):
        counters(disabled_passes=["recognize-silu"])


def test_norms_that_divide_by_a_root_are_recognised(device: str) -> None:
    def layer_norm(x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)

    def rms_norm(x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6) ** 0.5

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = x.mean((1, 2), keepdim=True)
        deviation = (x.var((1, 2), unbiased=False, keepdim=True) + 1e-5).sqrt()
        return layer_norm(x), rms_norm(x), (x - mean) / deviation

    x = torch.randn(4, 6, 33, device=device)
    with gex.collect() as graphs:
        got = torch.compile(f, backend="gex")(x)
    assert graphs[0].runner.counters["pass.recognise-norm"] == 3
    torch.testing.assert_close(got, f(x), atol=2e-6, rtol=2e-6)
    without = {"disabled_passes": ["recognise-norm"]}
    torch._dynamo.reset()
    for one, other in zip(got, torch.compile(f, backend="gex", options=without)(x), strict=True):
        assert torch.equal(one, other)


def test_a_pass_without_its_method_is_refused_where_it_is_registered() -> None:
    for register, base, missing in (
        (passes.register_fusion_pass, passes.PatternPass, "replacement"),
        (passes.register_decompose_pass, passes.DecomposePass, "replacement"),
        (passes.register_graph_pass, passes.GraphPass, "run"),
    ):
        with pytest.raises(TypeError, match=missing):
            register("unfinished")(type("Unfinished", (base,), {}))
    assert "unfinished" not in passes.get_registered_passes()
