"""gex compile of TensorFlow models, where GEX_TF_PYTHON names a Python with TensorFlow and tf2onnx.

TensorFlow has an environment of its own: it and PyTorch want different versions of what they share.
"""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess

import numpy as np
import pytest

import gex

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
PYTHON = os.environ.get("GEX_TF_PYTHON", "")

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")

needs_tensorflow = pytest.mark.skipif(
    not PYTHON, reason="GEX_TF_PYTHON names no Python with tensorflow-cpu and tf2onnx"
)

MODEL = """
import sys
import numpy as np
import tensorflow as tf

class Net(tf.Module):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.w = tf.Variable(rng.standard_normal((8, 4)).astype("f4"))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": tf.nn.softmax(tf.matmul(x, self.w))}

net = Net()
tf.saved_model.save(net, sys.argv[1])
x = np.random.default_rng(1).standard_normal((3, 8)).astype("f4")
np.savez(sys.argv[2], x=x, y=net(tf.constant(x))["y"].numpy())
"""


def compile_with(python: str, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GEX, "compile", *words],
        env={**os.environ, "GEX_PYTHON": python},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@needs_tensorflow
def test_saved_model_becomes_a_model_file(tmp_path: pathlib.Path) -> None:
    saved, values = tmp_path / "saved", tmp_path / "values.npz"
    subprocess.run([PYTHON, "-c", MODEL, saved, values], check=True, timeout=600)
    made = compile_with(PYTHON, saved, "-o", tmp_path / "m.gexe")
    assert made.returncode == 0, made.stderr
    expected = np.load(values)
    session = gex.load(tmp_path / "m.gexe", trust=True)
    np.testing.assert_allclose(session(expected["x"]), expected["y"], rtol=1e-4, atol=1e-6)


KERAS = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

folder = sys.argv[1]
tf.keras.utils.set_random_seed(0)
layers = tf.keras.layers
net = tf.keras.Sequential([layers.Input((8,), name="x"), layers.Dense(4, "relu"), layers.Dense(3)])
net.save(folder + "/m.keras")
net.save(folder + "/m.h5")
signature = tf.TensorSpec([None, 8], tf.float32, name="x")
function = tf.function(lambda x: net(x)).get_concrete_function(signature)
frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
tf.io.write_graph(frozen, folder, "m.pb", as_text=False)
x = np.random.default_rng(1).standard_normal((3, 8)).astype("f4")
np.savez(folder + "/values.npz", x=x, y=net(x).numpy())
"""


@needs_tensorflow
def test_keras_files_and_frozen_graphs(tmp_path: pathlib.Path) -> None:
    subprocess.run([PYTHON, "-c", KERAS, tmp_path], check=True, timeout=600)
    expected = np.load(tmp_path / "values.npz")
    names = ["--inputs", "x:0", "--outputs", "Identity:0"]
    for file, words in (("m.keras", []), ("m.h5", []), ("m.pb", names)):
        made = compile_with(PYTHON, tmp_path / file, "-o", tmp_path / "m.gexe", *words)
        assert made.returncode == 0, made.stderr
        session = gex.load(tmp_path / "m.gexe", trust=True)
        np.testing.assert_allclose(session(expected["x"]), expected["y"], rtol=1e-4, atol=1e-6)


def script(path: pathlib.Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_mistakes_are_one_sentence(tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    made = compile_with("python3", empty)
    assert made.returncode == 1 and "no saved_model.pb" in made.stderr
    (empty / "saved_model.pb").write_bytes(b"x")
    absent = script(tmp_path / "absent", "echo 'No module named tf2onnx' >&2\nexit 1\n")
    made = compile_with(absent, empty)
    assert made.returncode == 1 and "pip install tf2onnx" in made.stderr
    assert made.stderr.count("\n") == 1
    made = compile_with(str(tmp_path / "nowhere"), empty)
    assert made.returncode == 1 and "GEX_PYTHON" in made.stderr
