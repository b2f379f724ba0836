"""Acceptance cases of offline models and custom operators: 62, 63, 68 and 69."""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

import gex
from gex import es
from gex.deploy.library import RunError
from gex.deploy.session import Model, Session
from gex.errors import BranchOnData

onnx = pytest.importorskip("onnx")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
GEX = BUILD / "bin" / "gex"

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")
_names = (f"gex_ge_cases::op{k}" for k in itertools.count())


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def command(*words: str | pathlib.Path) -> str:
    made = subprocess.run([GEX, *words], capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def binary(folder: pathlib.Path, name: str, op: Callable[..., es.TensorHolder]) -> pathlib.Path:
    builder = es.EsGraphBuilder(name)
    a, b = (builder.CreateInput(k, "ab"[k], "f32", [2, 3]) for k in range(2))
    path = folder / f"{name}.gex"
    path.write_text(builder.Build([op(a, b)]).print())
    return path


A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.full((2, 3), 10, np.float32)


# --- 62: offline models ---------------------------------------------------------------------------


def test_case_62_a_graph_is_built_saved_loaded_and_run(tmp_path: pathlib.Path) -> None:
    text = binary(tmp_path, "add_sample", lambda a, b: a + b)
    command("compile", text, "-o", tmp_path / "add_sample.gexe")
    session = gex.load(tmp_path / "add_sample.gexe", trust=True)
    np.testing.assert_array_equal(session(A, B), A + B)


def test_case_62_a_bundle_holds_models_by_name(tmp_path: pathlib.Path) -> None:
    texts = [
        binary(tmp_path, "add", lambda a, b: a + b),
        binary(tmp_path, "mul", lambda a, b: a * b),
    ]
    command("compile", *texts, "-o", tmp_path / "both.gexe")
    for name, wanted in (("add", A + B), ("mul", A * B)):
        session = Session(Model(tmp_path / "both.gexe", model=name, trust=True))
        np.testing.assert_array_equal(session(A, B), wanted)
    with pytest.raises(RunError, match=r"add.*mul"):
        Model(tmp_path / "both.gexe", model="sub", trust=True)


def test_case_62_an_exported_module_runs_without_the_framework(tmp_path: pathlib.Path) -> None:
    module = torch.nn.Linear(4, 3).eval()
    x = torch.randn(2, 4)
    compiled = gex.compile(torch.export.export(module, (x,)))
    compiled.save(tmp_path / "linear.gexe")
    assert "matmul" in command("inspect", tmp_path / "linear.gexe", "--program")
    np.save(tmp_path / "x.npy", x.numpy())
    words = ("--trust", "--input", f"input={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    command("run", tmp_path / "linear.gexe", *words)
    (result,) = (tmp_path / "out").glob("*.npy")
    np.testing.assert_allclose(np.load(result), module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_case_62_a_branch_on_data_is_an_error_with_its_line() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return x + 1
            return x - 1

    with pytest.raises(BranchOnData, match=r"test_ge_deploy_cases\.py:\d+: `if x\.sum\(\) > 0:`"):
        gex.compile(Branches(), (torch.randn(3),))


# --- 63: weights are replaced without compiling ---------------------------------------------------


def weighted(folder: pathlib.Path) -> pathlib.Path:
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.full((3, 3), 2, np.float32), "const_1")
    graph = h.make_graph(
        [h.make_node("Mul", ["x", "const_1"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", floats, [3, 3])],
        [h.make_tensor_value_info("y", floats, [3, 3])],
        [weight],
    )
    path = folder / "m.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_case_63_a_weight_is_updated_and_nothing_is_compiled(tmp_path: pathlib.Path) -> None:
    before, after = tmp_path / "before.gexe", tmp_path / "after.gexe"
    command("compile", weighted(tmp_path), "-o", before, "--updatable", "const_1")
    np.save(tmp_path / "new.npy", np.full((3, 3), 5, np.float32))
    command("update", before, "--set", f"const_1={tmp_path / 'new.npy'}", "-o", after)
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(gex.load(before, trust=True)(x), x * 2)
    np.testing.assert_array_equal(gex.load(after, trust=True)(x), x * 5)
    programs = [command("inspect", path, "--program").split("\n", 1)[1] for path in (before, after)]
    assert programs[0] == programs[1]
    sizes = [path.stat().st_size for path in (before, after)]
    assert abs(sizes[0] - sizes[1]) < 1024


# --- 68: custom operators at run time -------------------------------------------------------------


def test_case_68_a_host_function_runs_in_a_graph_and_follows_its_inputs() -> None:
    calls: list[tuple[int, ...]] = []
    name = next(_names)

    @torch.library.custom_op(name, mutates_args=())
    def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append(tuple(x.shape))
        return x + by

    @shifted.register_fake
    def _(x: torch.Tensor, by: float) -> torch.Tensor:
        return torch.empty_like(x)

    compiled = torch.compile(
        lambda x: torch.relu(shifted(x * 2, 1.0)) - 1, backend="gex", fullgraph=True
    )
    for seed in range(3):  # other memory and values at each call
        torch.manual_seed(seed)
        x = torch.randn(4, 5)
        torch.testing.assert_close(compiled(x), torch.relu(x * 2 + 1) - 1)
    assert calls == [(4, 5)] * 3


VALUES = [
    ([1, 0, 1, 0, 1, 0, 0, 1], [0, 2, 4, 7]),
    ([0] * 8, []),
    ([1] * 8, list(range(8))),
]


@pytest.mark.parametrize(("mask", "found"), VALUES)
def test_case_68_values_determine_the_size_of_a_result(mask: list[int], found: list[int]) -> None:
    def where(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        positions = torch.nonzero(x)
        return positions, positions.sum(0) + positions.shape[0]

    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        compiled = torch.compile(where, backend="gex", fullgraph=True)
        positions, after = compiled(torch.tensor(mask, dtype=torch.bool))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False
    assert positions.dtype == torch.int64 and list(positions.shape) == [len(found), 1]
    assert positions.flatten().tolist() == found
    assert after.tolist() == [sum(found) + len(found)]  # the next ops saw the real size


def test_case_68_an_artefact_runs_in_a_fresh_process(tmp_path: pathlib.Path) -> None:
    """Composed ops are inside the file; only the file is there when it runs."""

    @es.register_op(next(_names).replace("::", "."))
    def bent(x, *, slope: float = 0.25):
        return es.where(es.gt(x, 0), x, x * slope)

    builder = es.EsGraphBuilder("bent")
    x = builder.CreateInput(0, "x", "f32", [4])
    program = builder.Build([bent(x, slope=0.5) + 1.0]).compile()
    program.save(str(tmp_path / "bent.gexp"))
    code = (
        "import sys, numpy as np\n"
        "from gex import es\n"
        "program = es.Program.load(sys.argv[1])\n"
        "print(np.asarray(program.run([np.array([-2, 0, 2, 4], np.float32)])[0]).tolist())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(gex.__file__).parents[1])}
    words = [sys.executable, "-c", code, str(tmp_path / "bent.gexp")]
    made = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == "[0.0, 1.0, 3.0, 5.0]"


# --- 69: operators of torch.library ---------------------------------------------------------------


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex", "aot_eager"])
def test_case_69_schema_implementation_and_fake_are_enough(backend: str) -> None:
    name = next(_names)

    @torch.library.custom_op(name, mutates_args=())
    def squared(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * x * scale

    @squared.register_fake
    def _(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.empty_like(x)

    def step(x: torch.Tensor) -> torch.Tensor:
        return squared(x + 1, 0.5).sum(-1)

    x = torch.randn(3, 4)
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), step(x))
    if backend == "gex":
        torch.testing.assert_close(gex.compile(Stepped(step), (x,))(x), step(x))


class Stepped(torch.nn.Module):
    def __init__(self, step: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(x)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_case_69_an_operator_that_writes_in_place(backend: str) -> None:
    name = next(_names)

    @torch.library.custom_op(name, mutates_args=("x",))
    def doubled(x: torch.Tensor) -> None:
        x.mul_(2)

    @doubled.register_fake
    def _(x: torch.Tensor) -> None:
        return None

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        doubled(x)
        return y * x

    x, other = torch.ones(4), torch.ones(4)
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), step(other))
        torch.testing.assert_close(x, other)
