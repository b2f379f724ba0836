"""Custom operators of torch.library: in graphs as they are, in model files by a C++ kernel.

The code is that of docs/custom_ops.md.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import gex

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
PAGE = (ROOT / "docs" / "custom_ops.md").read_text()
PACKAGE = pathlib.Path(gex.__file__).parents[1]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """With kernels.so and the model file that the page makes."""
    folder = tmp_path_factory.mktemp("custom")
    (folder / "kernels.cpp").write_text(blocks("cpp")[0])
    compiler = ["c++", "-std=c++17", "-shared", "-fPIC", "kernels.cpp", "-o", "kernels.so"]
    gex_library = [f"-I{ROOT}/include", f"-L{BUILD}/lib", "-lgex", f"-Wl,-rpath,{BUILD}/lib"]
    subprocess.run([*compiler, *gex_library], check=True, cwd=folder)
    (folder / "page.py").write_text(blocks("python")[1])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    subprocess.run([sys.executable, "page.py"], check=True, cwd=folder, env=environment)
    return folder


def test_the_formula_of_the_page() -> None:
    scope: dict[str, object] = {}
    formula = blocks("python")[0].replace("my.bent", "test_page.bent")
    exec(compile(formula, "custom_ops.md", "exec"), scope)
    from gex import es

    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [4])
    program = builder.Build([scope["bent"](x) + 1.0]).compile()  # type: ignore[operator]
    (y,) = program.run([np.array([-1, 2, -3, 4], np.float32)])
    np.testing.assert_allclose(y, [0.9, 3, 0.7, 5], rtol=1e-6)
    assert program.counters()["launches"] == 1


def test_a_file_runs_without_pytorch(folder: pathlib.Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    np.save(folder / "x.npy", x)
    run = [BUILD / "bin" / "gex", "run", "model.gexe", "--trust", "--input", "x=x.npy"]
    missing = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert missing.returncode != 0 and "my.scaled" in missing.stderr
    with_kernels = [*run, "--kernels", "./kernels.so", "--output-dir", "out"]
    subprocess.run(with_kernels, cwd=folder, check=True)
    (result,) = (folder / "out").glob("*.npy")
    expected = np.maximum(x.T * 2.5 + 1, 0) - 3
    np.testing.assert_allclose(np.load(result), expected, rtol=1e-6)
    gex.load_kernels(folder / "kernels.so")
    session = gex.load(folder / "model.gexe", trust=True)
    np.testing.assert_allclose(session(x), expected, rtol=1e-6)


@torch.library.custom_op("gex_test_kernels::twice", mutates_args=())
def twice(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) * 2


@twice.register_fake
def _(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(x, dtype=dtype)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(twice(x, torch.float32))


def test_it_needs_nothing_more_in_a_graph() -> None:
    x = torch.randn(3, 5)
    compiled = torch.compile(Twice(), backend="gex", fullgraph=True)
    with pytest.warns(gex.FallbackWarning, match="twice"):
        torch.testing.assert_close(compiled(x), Twice()(x))


def test_what_a_file_cannot_have_is_refused(tmp_path: pathlib.Path) -> None:
    compiled = gex.compile(Twice(), (torch.randn(3, 5),))
    with pytest.raises(gex.UserError, match=r"gex_test_kernels\.twice"):
        compiled.save(tmp_path / "m.gexe", cpu=["v3"])
    gex.use_kernel(twice, "test.twice")
    with pytest.raises(gex.UserError, match="constants that JSON has"):
        compiled.save(tmp_path / "m.gexe", cpu=["v3"])


def test_wrong_operators_are_refused() -> None:
    with pytest.raises(ValueError, match="namespace::name"):
        gex.use_kernel("scaled", "test.scaled")
    with pytest.raises(TypeError, match="no operator"):
        gex.use_kernel(sys.path, "test.scaled")
