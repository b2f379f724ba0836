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


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
# What a machine without compilers and without LLVM has.
BARE = {"PATH": "/nowhere", "LD_LIBRARY_PATH": ""}
DEMO = ROOT / "examples" / "demo.py"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The files of the checkout, without what was built there."""
    sources = tmp_path_factory.mktemp("sources")
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, sources / name)
    return sources


def build_environment(sources: pathlib.Path) -> dict[str, str]:
    # With the compiler by CMake's name for it, what other builds compiled is found again.
    return {"CCACHE_BASEDIR": str(sources), "CCACHE_NOHASHDIR": "1", "CC": "cc", "CXX": "c++"}


@pytest.fixture(scope="module")
def wheel(sources: pathlib.Path) -> pathlib.Path:
    run(
        *[*PIP, "wheel", ".", "--no-build-isolation", "--no-deps", "--wheel-dir", "wheels"],
        "--config-settings=build-dir=build",
        cwd=sources,
        **build_environment(sources),
    )
    (wheel,) = (sources / "wheels").glob("gex-*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with nothing but the installed wheel."""
    folder = tmp_path_factory.mktemp("site")
    run(*PIP, "install", "--no-deps", "--no-index", "--target", folder, wheel, cwd=folder)
    return folder


def libraries_needed(library: pathlib.Path) -> list[str]:
    out = run("readelf", "-d", library, cwd=library.parent)
    return [line.split("[")[1].rstrip("]") for line in out.splitlines() if "(NEEDED)" in line]


def test_wheel_is_small_and_needs_only_what_every_linux_has(
    wheel: pathlib.Path, site: pathlib.Path
) -> None:
    assert wheel.stat().st_size <= 60 * 2**20
    names = [path.name for path in sorted((site / "gex").glob("lib*.so*"))]
    versioned = ["libgex.so.0.1", "libgex_core.so.0.1", "libgex_llvm.so"]
    assert names == ["libgex.so", *versioned]
    # For the linker: wheels have no symbolic links.
    assert (site / "gex" / "libgex.so").read_text() == "INPUT(libgex.so.0.1)\n"
    ours = [site / "gex" / name for name in versioned] + [*(site / "gex").glob("_gex*.so")]
    assert len(ours) == 4
    usual = ("libgex.so", "libgex_core.so", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so")
    usual += ("ld-linux", "libpthread.so", "libdl.so", "librt.so")
    for library in [*ours, site / "gex" / "bin" / "gex"]:
        others = [name for name in libraries_needed(library) if not name.startswith(usual)]
        assert others == [], library


def test_llvm_inside_is_invisible_outside(site: pathlib.Path) -> None:
    library = site / "gex" / "libgex_llvm.so"
    out = run("nm", "-D", "--defined-only", "-C", library, cwd=site)
    exported = [line.split(" ", 2)[2] for line in out.splitlines()]
    assert exported and not [name for name in exported if "llvm" in name.lower().split("gex_")[0]]


def test_auditwheel_accepts_it_as_a_manylinux_wheel(wheel: pathlib.Path) -> None:
    pytest.importorskip("auditwheel", reason="auditwheel is not installed")
    out = run(sys.executable, "-m", "auditwheel", "show", wheel, cwd=wheel.parent)
    assert "manylinux_2_" in out, out


def test_demo_runs_compiled_without_llvm_and_compilers(
    site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    out = run(
        *[sys.executable, DEMO, "--layers", "1", "--tokens", "2"],
        cwd=tmp_path,
        PYTHONPATH=str(site),
        **BARE,
    )
    assert "prompts with the same tokens: 3 of 3" in out
    assert "calls through PyTorch                    -             0" in out
    out = python(
        site,
        """
        import torch, gex
        with gex.collect() as graphs:
            torch.compile(torch.nn.GELU(), backend="gex")(torch.randn(64))
        print([line for line in open("/proc/self/maps") if "libLLVM" in line])
        print(any("libgex_llvm" in line for line in open("/proc/self/maps")))
        """,
        tmp_path,
        **BARE,
    )
    assert out == "[]\nTrue\n"


def test_editable_install_runs_the_sources(
    sources: pathlib.Path, wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    own = tmp_path / "venv" / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    folder = pathlib.Path(run(own, "-c", purelib, cwd=tmp_path).strip())
    packages = run(sys.executable, "-c", purelib, cwd=tmp_path).strip()
    # PyTorch and the tools of the build; a plain path: its .pth files, one of them gex's, stay out.
    (folder / "packages.pth").write_text(packages + "\n")
    run(
        *[own, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "-e", "."],
        *["--no-build-isolation", "--config-settings=build-dir=build"],
        cwd=sources,
        **build_environment(sources),
    )
    out = run(
        *[own, "-c", "import gex.dynamo.backends as module; print(module.__file__)"],
        cwd=tmp_path,
    )
    assert pathlib.Path(out.strip()) == sources / "python" / "gex" / "dynamo" / "backends.py"
    out = run(own, DEMO, "--layers", "1", "--tokens", "2", cwd=tmp_path, **BARE)
    assert "prompts with the same tokens: 3 of 3" in out
    (tmp_path / "in.gex").write_text("graph g(%x: f32[2]) -> (f32[2]) { return %x }")
    out = run(own, "-m", "gex", "run", "in.gex", "--input=x=ones", cwd=tmp_path)
    assert out == "output_0: f32[2]\n[1, 1]\n"


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
