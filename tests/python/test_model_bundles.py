"""gex compile with several models, signatures and weights that can be replaced; gex update."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import gex

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")

rng = np.random.default_rng(2)
WEIGHT = rng.standard_normal((64, 64)).astype(np.float32)
X = rng.standard_normal((3, 64)).astype(np.float32)


def write_model(path: pathlib.Path, activation: str) -> pathlib.Path:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node(activation, ["m"], ["a"]),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [
            numpy_helper.from_array(WEIGHT, "w"),
            numpy_helper.from_array(np.full(64, 0.5, np.float32), "b"),
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path
    )
    return path


def run(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GEX, *words], capture_output=True, text=True, timeout=300, check=False)


def succeed(*words: str | pathlib.Path) -> str:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refuse(*words: str | pathlib.Path) -> str:
    done = run(*words)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_models_of_one_file_share_weights(tmp_path: pathlib.Path) -> None:
    files = [write_model(tmp_path / f"{name.lower()}.onnx", name) for name in ("Relu", "Tanh")]
    both, one = tmp_path / "both.gexe", tmp_path / "one.gexe"
    succeed("compile", *files, "-o", both, "--cpu", "v3")
    succeed("compile", files[0], "-o", one, "--cpu", "v3")
    sizes = [
        {s["name"]: s["bytes"] for s in json.loads(succeed("inspect", p, "--json"))["sections"]}
        for p in (both, one)
    ]
    assert sizes[0]["weights"] == sizes[1]["weights"]
    m = X @ WEIGHT
    for name, expected in (("relu", np.maximum(m, 0)), ("tanh", np.tanh(m))):
        session = gex.load(both, trust=True, model=name)
        np.testing.assert_allclose(session(X), expected + 0.5, rtol=1e-4, atol=1e-4)
    assert "relu, tanh" in refuse("run", both, "--trust", "--model", "gelu")
    assert "two models would be called 'relu'" in refuse(
        "compile", files[0], files[0], "-o", tmp_path / "twice.gexe"
    )
    assert "-o" in refuse("compile", *files)


def test_signed_files(tmp_path: pathlib.Path) -> None:
    model, file = write_model(tmp_path / "m.onnx", "Relu"), tmp_path / "m.gexe"
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_bytes(b"k" * 32)
    other.write_bytes(b"o" * 32)
    np.save(tmp_path / "x.npy", X)
    succeed("compile", model, "-o", file, "--cpu", "v3", "--key", key)
    assert "machine code" in gex.load(file, key=key.read_bytes()).model.code
    succeed("run", file, "--key", key, "--check-weights", "--input", f"x={tmp_path}/x.npy")
    assert "not one of this key" in refuse(
        "run", file, "--key", other, "--input", f"x={tmp_path}/x.npy"
    )
    with pytest.raises(gex.UserError, match="not one of this key"):
        gex.load(file, key=other.read_bytes())
    succeed("compile", model, "-o", file, "--cpu", "v3")
    assert "no signature" in refuse("run", file, "--key", key, "--input", f"x={tmp_path}/x.npy")


def test_weights_are_replaced_without_compiling(tmp_path: pathlib.Path) -> None:
    model, file, new = (
        write_model(tmp_path / "m.onnx", "Relu"),
        tmp_path / "m.gexe",
        tmp_path / "n.gexe",
    )
    succeed("compile", model, "-o", file, "--cpu", "v3", "--updatable", "w,b")
    assert sorted(succeed("update", file).splitlines()) == ["m b: f32[64]", "m w: f32[64, 64]"]
    weight, bias = rng.standard_normal((64, 64)).astype(np.float32), np.arange(64, dtype=np.float32)
    np.save(tmp_path / "w.npy", weight)
    np.save(tmp_path / "b.npy", bias)
    before = gex.load(file, trust=True)
    np.testing.assert_allclose(before(X), np.maximum(X @ WEIGHT, 0) + 0.5, rtol=1e-4, atol=1e-4)
    succeed(
        "update", file, "--set", f"w={tmp_path}/w.npy", "--set", f"b={tmp_path}/b.npy", "-o", new
    )
    after = gex.load(new, trust=True, check_weights=True)
    np.testing.assert_allclose(after(X), np.maximum(X @ weight, 0) + bias, rtol=1e-4, atol=1e-4)
    assert "no initialiser 'q'" in refuse("compile", model, "-o", file, "--updatable", "q")
    assert '"w", "b"' in refuse("update", file, "--set", f"q={tmp_path}/w.npy", "-o", new)
