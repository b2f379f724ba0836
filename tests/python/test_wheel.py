"""The wheel, built from a clean copy of the sources and installed where nothing else of gex is."""

from __future__ import annotations

import pathlib
import shutil
import sys
import textwrap

import numpy as np
import pytest

from processes import run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

pytest.importorskip("scikit_build_core", reason="pip wheel without build isolation needs it")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with nothing but the installed wheel."""
    sources = tmp_path_factory.mktemp("sources")
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, sources / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(
        *[*pip, "wheel", ".", "--no-build-isolation", "--no-deps", "--wheel-dir", "wheels"],
        "--config-settings=build-dir=build",
        cwd=sources,
        # With the compiler by CMake's name for it, what other builds compiled is found again.
        **{"CCACHE_BASEDIR": str(sources), "CCACHE_NOHASHDIR": "1", "CC": "cc", "CXX": "c++"},
    )
    (wheel,) = (sources / "wheels").glob("gex-*.whl")
    folder = tmp_path_factory.mktemp("site")
    run(*pip, "install", "--no-deps", "--no-index", "--target", folder, wheel, cwd=folder)
    shutil.rmtree(sources)
    return folder


def python(site: pathlib.Path, code: str, cwd: pathlib.Path, **environment: str) -> str:
    text = textwrap.dedent(code)
    return run(sys.executable, "-c", text, cwd=cwd, PYTHONPATH=str(site), **environment)


def test_torch_compile_finds_the_backends_by_name(
    site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = python(
        site,
        """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
        x = torch.randn(3, 8)
        for backend in ("gex", "npugraph_ex"):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=backend)
            compiled(x).sum().backward()
            torch.testing.assert_close(compiled(x), model(x))
        import gex
        with gex.collect() as graphs:
            torch._dynamo.reset()
            torch.compile(model, backend="gex")(x)
        assert graphs[0].runner.counters["launches"] > 0
        print(gex.__file__)
        """,
        tmp_path,
    )
    assert pathlib.Path(out.strip()).is_relative_to(site)


def test_builder_in_python_has_the_ops(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = python(
        site,
        """
        from importlib.metadata import version
        import gex
        import numpy as np
        from gex import es
        builder = es.EsGraphBuilder("g")
        x = builder.CreateInput(0, "x", "f32", ["s0", 4])
        program = builder.Build([es.rms_norm(x, divide=True).result]).compile()
        (y,) = program.run([np.full((2, 4), 3, np.float32)])
        assert "launch" in program.print("program")
        assert version("gex") == gex.__version__
        print(y[0, 0])
        """,
        tmp_path,
    )
    assert float(out) == pytest.approx(1, abs=1e-5)


def test_command_runs_and_finds_its_python(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "in.gex").write_text("graph g(%x: f32[2]) -> (f32[2]) { return %x }")
    here = {"PYTHONPATH": str(site)}
    for gex in ([site / "bin" / "gex"], [sys.executable, "-m", "gex"]):
        out = run(*gex, "run", "in.gex", "--input=x=ones", cwd=tmp_path, **here)
        assert out == "output_0: f32[2]\n[1, 1]\n"
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    out = run(site / "bin" / "gex", "diff", ".", ".", cwd=tmp_path, PATH="/nowhere", **here)
    assert out == "1 tensors compared, 0 differ\n"


def test_programs_in_cpp_build_against_it(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    package = site / "gex"
    run(
        *[
            "g++",
            "-std=c++20",
            "-Wall",
            "-Wextra",
            "-Werror",
            ROOT / "examples" / "es_subtract.cpp",
        ],
        *[f"-I{package}/include", f"-L{package}", "-lgex", "-o", "user"],
        cwd=tmp_path,
    )
    out = run(tmp_path / "user", cwd=tmp_path, LD_LIBRARY_PATH=str(package))
    assert "launch " in out and out.endswith("f32[1] 3.5\n")
