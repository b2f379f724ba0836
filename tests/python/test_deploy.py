"""Model files: from ONNX, text, PyTorch and C to gex run, gex bench, gex.load and libgex_run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import gex
from gex.deploy.library import RunError
from gex.deploy.session import Cancel, Model, Session

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
GEX = BUILD / "bin" / "gex"

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")


def command(*words: str | pathlib.Path) -> str:
    made = subprocess.run([GEX, *words], capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def refused(*words: str | pathlib.Path) -> str:
    made = subprocess.run([GEX, *words], capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 1, made
    assert made.stderr.startswith("gex: ") and "bug in gex" not in made.stderr
    return made.stderr


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def network() -> onnx.ModelProto:
    h = onnx.helper
    weights = {
        "w0": random(16, 3, 3, 3) * 0.2,
        "b0": random(16) * 0.1,
        "w1": random(64, 16) * 0.2,
        "w2": random(64, 10),
    }
    nodes = [
        h.make_node("Conv", ["x", "w0", "b0"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("GlobalAveragePool", ["r"], ["g"]),
        h.make_node("Flatten", ["g"], ["f"]),
        h.make_node("Gemm", ["f", "w1"], ["m"], transB=1),
        h.make_node("Erf", ["m"], ["e"]),
        h.make_node("MatMul", ["e", "w2"], ["l"]),
        h.make_node("Softmax", ["l"], ["p"]),
    ]
    graph = h.make_graph(
        nodes,
        "net",
        [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [h.make_tensor_value_info("p", onnx.TensorProto.FLOAT, ["batch", 10])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


def expected(x: np.ndarray) -> np.ndarray:
    return reference.ReferenceEvaluator(network()).run(None, {"x": x})[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("deploy")
    onnx.save(network(), folder / "net.onnx")
    command(
        *("compile", folder / "net.onnx", "-o", folder / "net.gexe"),
        *("--cpu", "v2,v3,v4", "--shape", "x=1..32,3,8,8", "--gears", "batch=1,8,32"),
    )
    return folder


@pytest.fixture(scope="module")
def file(folder: pathlib.Path) -> pathlib.Path:
    return folder / "net.gexe"


def test_inspect_shows_inputs_outputs_and_processors(file: pathlib.Path) -> None:
    told = json.loads(command("inspect", file, "--json", "--verify"))
    (model,) = told["models"]
    assert model["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["batch", 3, 8, 8]}]
    assert model["outputs"] == [{"name": "p", "dtype": "f32", "shape": ["batch", 10]}]
    assert model["target"] == "cpu"
    assert model["code"] == ["v2", "v3", "v4"]
    assert model["source"] == "net.onnx"


@pytest.mark.parametrize("trust", [True, False])
def test_run_gives_what_the_model_gives(
    file: pathlib.Path, tmp_path: pathlib.Path, trust: bool
) -> None:
    x = random(5, 3, 8, 8)
    np.save(tmp_path / "x.npy", x)
    words = ["--trust"] if trust else []
    command("run", file, *words, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected(x), rtol=1e-4, atol=1e-6)


def test_nothing_of_llvm_is_opened_with_trust(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    made = subprocess.run(
        [GEX, "run", file, "--trust", "--dim", "batch=2"],
        env={**os.environ, "LD_DEBUG": "files"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "libgex.so" in made.stderr
    assert "LLVM" not in made.stderr and "gex_llvm" not in made.stderr


def test_bench_prints_percentiles_as_json(file: pathlib.Path) -> None:
    words = ("--trust", "--dim", "batch=2", "--calls", "20", "--clients", "2", "--threads", "1")
    figures = json.loads(command("bench", file, *words, "--json"))
    assert figures["calls"] == 40
    assert figures["fastest_us"] <= figures["p50_us"] <= figures["p99_us"] <= figures["slowest_us"]
    assert figures["code"].startswith("machine code")
    assert figures["load_us"] > 0 and figures["calls_a_second"] > 0


def test_compile_says_what_it_refuses(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    net = folder / "net.onnx"
    assert "v5" in refused("compile", net, "-o", tmp_path / "a.gexe", "--cpu", "v5")
    assert "no input 'y'" in refused("compile", net, "--shape", "y=1,3,8,8")
    assert "2 sizes" in refused("compile", net, "--shape", "x=1,3")
    assert "not a range" in refused("compile", net, "--shape", "x=8..1,3,8,8")
    assert "--gears" in refused("compile", net, "--gears", "rows=1,2")
    assert "--target" in refused("compile", net, "--target", "tpu")
    assert not (tmp_path / "a.gexe").exists()


def test_values_that_decide_sizes_are_refused(tmp_path: pathlib.Path) -> None:
    h, t = onnx.helper, onnx.TensorProto
    graph = h.make_graph(
        [h.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", t.FLOAT, [6]), h.make_tensor_value_info("s", t.INT64, [2])],
        [h.make_tensor_value_info("y", t.FLOAT, None)],
    )
    onnx.save(h.make_model(graph), tmp_path / "m.onnx")
    assert "ahead of time" in refused("compile", tmp_path / "m.onnx")


def test_damaged_files_are_one_clear_error(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    bytes_ = file.read_bytes()
    short = tmp_path / "short.gexe"
    short.write_bytes(bytes_[:-7])
    assert "bytes" in refused("run", short, "--trust", "--dim", "batch=1")
    other = tmp_path / "other.gexe"
    other.write_bytes(b"not a model")
    assert "not a gex model file" in refused("inspect", other)
    assert "No such file" in refused("inspect", tmp_path / "missing.gexe")


def test_text_of_a_graph_becomes_a_model(tmp_path: pathlib.Path) -> None:
    (tmp_path / "g.gex").write_text(
        "symbols s0\ngraph main(%x: f32[s0, 3], %i: i64[2]) -> (f32[2, 3]) {\n"
        "  %y = index(%x, %i) {axes = [0]} : f32[2, 3]\n  return %y\n}\n"
    )
    command("compile", tmp_path / "g.gex", "-o", tmp_path / "g.gexe")
    session = gex.load(tmp_path / "g.gexe", trust=True)
    x = random(4, 3)
    np.testing.assert_array_equal(session(x, np.array([3, 1])), x[[3, 1]])
    with pytest.raises(RunError, match="out of range"):
        session(x, np.array([4, 0]))


# --- gex.load -------------------------------------------------------------------------------------


def test_load_takes_and_gives_numpy(file: pathlib.Path) -> None:
    session = gex.load(file, trust=True, threads=1)
    assert [i.name for i in session.inputs] == ["x"]
    assert session.inputs[0].shape == ("batch", 3, 8, 8)
    assert session.outputs[0].dtype == "f32"
    assert session.model.code.startswith("machine code")
    x = random(3, 3, 8, 8)
    result = session(x)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, expected(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(session.run({"x": x})["p"], result)
    flipped = np.ascontiguousarray(x[:, :, ::-1])[:, :, ::-1]
    np.testing.assert_array_equal(session(flipped), result)


def test_load_takes_and_gives_torch(file: pathlib.Path) -> None:
    session = gex.load(file, trust=True)
    x = torch.from_numpy(random(2, 3, 8, 8))
    result = session(x)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_allclose(result.numpy(), expected(x.numpy()), rtol=1e-4, atol=1e-6)
    channels_last = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(session(channels_last), result)


def test_results_outlive_the_session(file: pathlib.Path) -> None:
    x = random(2, 3, 8, 8)
    result = gex.load(file, trust=True)(x)
    np.testing.assert_allclose(result, expected(x), rtol=1e-4, atol=1e-6)


def test_load_from_memory_and_shared_models(file: pathlib.Path) -> None:
    model = Model(file.read_bytes(), trust=True)
    x = random(2, 3, 8, 8)
    wanted = expected(x)
    results: list[np.ndarray] = []

    def work() -> None:
        session = Session(model, threads=1)
        results.extend(session(x) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    for result in results:
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-6)


def test_asynchronous_runs(file: pathlib.Path) -> None:
    session = gex.load(file, trust=True)
    inputs = [random(k, 3, 8, 8) for k in (1, 2, 3)]
    futures = [session.run_async({"x": x}) for x in inputs]
    for x, future in zip(inputs, futures):
        np.testing.assert_allclose(future.result()["p"], expected(x), rtol=1e-4, atol=1e-6)
    with pytest.raises(RunError) as error:
        session.run_async([random(1, 3, 9, 8)]).result()
    assert error.value.status == "shape_mismatch"


def test_errors_say_what_is_wrong(file: pathlib.Path) -> None:
    session = gex.load(file, trust=True)
    with pytest.raises(TypeError, match="missing: x"):
        session.run({"y": random(1, 3, 8, 8)})
    with pytest.raises(RunError) as error:
        session(random(64, 3, 8, 8))
    assert "batch" in str(error.value) or "32" in str(error.value)
    with pytest.raises(RunError) as error:
        session(random(1, 3, 8, 8).astype(np.float64))
    assert error.value.status == "type_mismatch"
    cancel = Cancel()
    cancel.request()
    with pytest.raises(RunError) as error:
        session.run([random(1, 3, 8, 8)], cancel=cancel)
    assert error.value.status == "cancelled"
    with pytest.raises(RunError) as error:
        session.run([random(1, 3, 8, 8)], timeout=1e-9)
    assert error.value.status == "deadline"
    with pytest.raises(RunError) as error:
        gex.load(file.with_name("missing.gexe"))
    assert error.value.status == "io_error"


# --- PyTorch --------------------------------------------------------------------------------------


class Perceptron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(12, 32)
        self.second = torch.nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.nn.functional.gelu(self.first(x))
        return {"scores": self.second(hidden).softmax(-1), "hidden": hidden}


def exported() -> tuple[Perceptron, torch.export.ExportedProgram]:
    torch.manual_seed(1)
    module = Perceptron().eval()
    shapes = {"x": {0: torch.export.Dim("rows", min=1, max=64)}}
    return module, torch.export.export(module, (torch.randn(3, 12),), dynamic_shapes=shapes)


def test_compiled_module_is_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    module, program = exported()
    gex.compile(program).save(tmp_path / "m.gexe")
    session = gex.load(tmp_path / "m.gexe", trust=True)
    assert [i.name for i in session.inputs] == ["x"]
    for rows in (1, 7):
        x = torch.randn(rows, 12)
        results = session.run({"x": x})
        for name, wanted in module(x).items():
            torch.testing.assert_close(results[name], wanted, rtol=1e-4, atol=1e-5)


def test_pt2_file_goes_through_the_command(tmp_path: pathlib.Path) -> None:
    module, program = exported()
    torch.export.save(program, tmp_path / "m.pt2")
    made = subprocess.run(
        [GEX, "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.gexe", "--cpu", "v3"],
        env={**os.environ, "GEX_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    x = torch.randn(4, 12)
    result = gex.load(tmp_path / "m.gexe")(x)
    torch.testing.assert_close(result[0], module(x)["scores"], rtol=1e-4, atol=1e-5)


def test_steps_through_pytorch_are_all_listed(tmp_path: pathlib.Path) -> None:
    class Calls(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.linalg.eigvalsh(x) + 1, torch.linalg.qr(x)[0] * 2

    with pytest.warns(gex.FallbackWarning):
        compiled = gex.compile(Calls(), (torch.eye(4),))
    with pytest.raises(gex.UserError) as error:
        compiled.save(tmp_path / "m.gexe")
    assert "eigh" in str(error.value) and "qr" in str(error.value), str(error.value)
