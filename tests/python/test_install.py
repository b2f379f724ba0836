"""What a C or C++ user gets: an install into a new prefix and programs built against it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import pytest

from processes import run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))

pytestmark = pytest.mark.skipif(
    not (BUILD / "lib" / "libgex.so").exists() or shutil.which("g++") is None,
    reason="libgex is not built, or there is no g++",
)

C_PROGRAM = """
#include <gex/gex.h>
#include <stdio.h>
int main(void) {
  gex_graph* graph = NULL;
  gex_value x, y;
  gex_size shape = {3, NULL};
  gex_program* program = NULL;
  float in[3] = {1, 2, 3}, out[3] = {0};
  int64_t sizes[1] = {3};
  gex_tensor input = GEX_TENSOR_INIT, output = GEX_TENSOR_INIT;
  input.data = in;
  output.data = out;
  input.rank = output.rank = 1;
  input.shape = output.shape = sizes;
  if (gex_graph_create("c", &graph) || gex_graph_input(graph, "x", GEX_F32, &shape, 1, &x) ||
      gex_graph_add(graph, "neg", &x, 1, NULL, 0, &y, 1) || gex_graph_set_outputs(graph, &y, 1) ||
      gex_compile(graph, NULL, &program) || gex_program_run(program, &input, 1, &output, 1)) {
    fprintf(stderr, "%s\\n", gex_last_error());
    return 1;
  }
  printf("%g %g %g\\n", out[0], out[1], out[2]);
  gex_program_destroy(program);
  gex_graph_destroy(graph);
  return 0;
}
"""

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(gex 0.1 REQUIRED)
add_executable(user user.cpp)
target_compile_features(user PRIVATE cxx_std_20)
target_link_libraries(user PRIVATE gex::gex)
"""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder, cwd=ROOT)
    return folder


def build_and_run(prefix: pathlib.Path, source: pathlib.Path, folder: pathlib.Path) -> str:
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    places = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lgex"]
    run("g++", *flags, source, *places, "-o", "user", cwd=folder)
    return run(folder / "user", cwd=folder, LD_LIBRARY_PATH=str(prefix / "lib"))


def test_prefix_has_the_documented_files(prefix: pathlib.Path) -> None:
    for path in [
        *["include/gex/gex.h", "include/gex/es.hpp", "include/gex/compat/ge.hpp"],
        "include/gex/es/ops.hpp",
        *["include/gex/session.h", "include/gex/session.hpp"],
        *["lib/libgex.so", "lib/libgex_core.so.0.1", "lib/cmake/gex/gexConfig.cmake", "bin/gex"],
        *["lib/libgex_run.so", "lib/pkgconfig/gex_run.pc"],
    ]:
        assert (prefix / path).exists(), path
    if (BUILD / "lib" / "libgex_llvm.so").exists():
        assert (prefix / "lib" / "libgex_llvm.so").exists()


def dynamic_section(path: pathlib.Path) -> str:
    return run("readelf", "-d", path, cwd=ROOT)


def test_library_has_a_versioned_name(prefix: pathlib.Path) -> None:
    assert "soname: [libgex.so.0.1]" in dynamic_section(prefix / "lib" / "libgex.so")
    assert (prefix / "lib" / "libgex.so").is_symlink()


def test_nothing_refers_to_the_build_machine(prefix: pathlib.Path) -> None:
    for path in [*(prefix / "lib").glob("*.so*"), prefix / "bin" / "gex"]:
        for folder in re.findall(r"RU?N?PATH\)\s+Library runpath: \[(.*)\]", dynamic_section(path)):
            for part in filter(None, folder.split(":")):
                assert part.startswith("$ORIGIN"), f"{path}: {part}"
    text = (prefix / "lib" / "pkgconfig" / "gex.pc").read_text()
    assert str(ROOT) not in text and str(prefix) not in text


def declared_in(prefix: pathlib.Path, *headers: str) -> set[str]:
    text = "".join((prefix / "include" / "gex" / name).read_text() for name in headers)
    return set(re.findall(r"GEX_API [\w* ]*?\b(gex_\w+)\(", text))


def exported(library: pathlib.Path) -> set[str]:
    listed = run("nm", "-D", "--defined-only", "--with-symbol-versions", library, cwd=ROOT)
    names = {line.split()[-1] for line in listed.splitlines()}
    return {name for name in names if not name.startswith("GEX_")}  # some linkers list the versions


def test_exported_symbols_are_the_functions_of_the_headers(prefix: pathlib.Path) -> None:
    declared = declared_in(prefix, "gex.h", "session.h", "kernel.h")
    names = {f"{name}@@GEX_1" for name in declared}
    assert exported(prefix / "lib" / "libgex.so") == names
    assert 80 < len(names) < 120


def test_the_engine_is_private(prefix: pathlib.Path) -> None:
    """libgex_core exports nothing under a public version and has no name to link it by."""
    names = exported(prefix / "lib" / "libgex_core.so.0.1")
    assert names and not [name for name in names if not name.endswith("@@GEX_PRIVATE")]
    assert not [name for name in names if "3gex" not in name]
    assert not (prefix / "lib" / "libgex_core.so").exists()


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="there is no pkg-config")
def test_pkg_config_gives_build_flags(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "user.c").write_text(C_PROGRAM)
    flags = run("pkg-config", "--cflags", "--libs", "gex", cwd=tmp_path,
                PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig")).split()  # fmt: skip
    run("gcc", "user.c", *flags, "-o", "user", cwd=tmp_path)
    out = run(tmp_path / "user", cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))
    assert out == "-1 -2 -3\n"


def test_headers_need_nothing_but_themselves(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    headers = sorted((prefix / "include").rglob("*.h*"))
    # Generated headers under GE's names, all with one text.
    of_ge = [header for header in headers if "ge_include" in header.parts]
    headers = [header for header in headers if header not in of_ge]
    every = tmp_path / "every.hpp"
    every.write_text("".join(f'#include "{header}"\n' for header in of_ge))
    assert len(headers) >= 3 and len(of_ge) >= 100
    for header in [*headers, *of_ge[:2], every]:
        run("g++", "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{prefix}/include", header,
            cwd=tmp_path)  # fmt: skip


def test_installed_command_finds_its_library(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "in.gex").write_text("graph g(%x: f32[2]) -> (f32[2]) { return %x }")
    out = run(prefix / "bin" / "gex", "run", "in.gex", "--input=x=ones", cwd=tmp_path)
    assert out == "output_0: f32[2]\n[1, 1]\n"


def test_ge_listing_with_plain_gxx(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    listing = (ROOT / "tests" / "capi" / "ge_listing.cpp").read_text()
    assert listing.count("#include") == 1
    main = 'int main() { return ge_listing()->Print().find("sub(") == std::string::npos; }\n'
    (tmp_path / "user.cpp").write_text(listing + main)
    build_and_run(prefix, tmp_path / "user.cpp", tmp_path)


def test_examples_run(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = build_and_run(prefix, ROOT / "examples" / "es_subtract.cpp", tmp_path)
    assert "--- kernels" in out and "launch " in out
    assert out.endswith("f32[1] 3.5\n")
    out = build_and_run(prefix, ROOT / "examples" / "es_matmul_gelu.cpp", tmp_path)
    assert "--- 3 calls, 2 captures" in out
    assert "expected f32[rows, 4], got f32[2, 5]" in out


def test_c_program_with_plain_gcc(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "user.c").write_text(C_PROGRAM)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    places = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lgex"]
    run("gcc", *flags, "user.c", *places, "-o", "user", cwd=tmp_path)
    out = run(tmp_path / "user", cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))
    assert out == "-1 -2 -3\n"


def test_cmake_package(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    (tmp_path / "user.cpp").write_text(
        '#include <gex/es.hpp>\nint main() { gex::es::EsGraphBuilder("g").CreateInput(0); }\n'
    )
    run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=tmp_path)
    run("cmake", "--build", "build", cwd=tmp_path)
    run(tmp_path / "build" / "user", cwd=tmp_path)


# --- libgex_run -----------------------------------------------------------------------------------

RUN_PROGRAM = """
#include <gex/session.hpp>
#include <cstdio>
int main(int count, char** words) {
  try {
    gex::Session session = gex::Session::load(words[1], {.trust = count > 2});
    const std::vector<float> x = {1, 2, 3, 4};
    const auto results = session.run({gex::Tensor::of<float>({2, 2}, x)});
    std::printf("%s %g %g\\n", session.model().code().substr(0, 11).c_str(),
                results[0].data<float>()[0], results[0].data<float>()[3]);
  } catch (const gex::RunError& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
  }
}
"""
RUN_GRAPH = """symbols n
graph main(%x: f32[n, 2]) -> (f32[n, 2]) {
  %y = exp(%x) : f32[n, 2]
  %z = log1p(%y) : f32[n, 2]
  return %z
}
"""


@pytest.fixture(scope="module")
def model(prefix: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "m.gex").write_text(RUN_GRAPH)
    run(prefix / "bin" / "gex", "compile", "m.gex", "-o", "m.gexe", "--cpu=v2,v3,v4", cwd=folder)
    return folder / "m.gexe"


def test_run_library_is_small_and_needs_no_other(prefix: pathlib.Path) -> None:
    library = (prefix / "lib" / "libgex_run.so").resolve()
    assert library.stat().st_size <= 4_000_000
    needed = re.findall(r"NEEDED\)\s+Shared library: \[(.*)\]", dynamic_section(library))
    assert not [name for name in needed if "gex" in name or "LLVM" in name]
    listed = run("nm", "-D", "--defined-only", library, cwd=ROOT)
    names = {line.split()[-1].partition("@@")[0] for line in listed.splitlines()} - {"GEX_1"}
    compiling = {"gex_program_save_model", "gex_graph_call_kernel"}
    missing = declared_in(prefix, "session.h", "kernel.h") - compiling - names
    assert not missing
    assert names <= declared_in(prefix, "gex.h", "session.h", "kernel.h")


def test_project_from_outside_runs_a_model_without_the_compiler(
    prefix: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "user.cpp").write_text(RUN_PROGRAM)
    project = CMAKE_PROJECT.replace("gex::gex)", "gex::gex_run)")
    (tmp_path / "CMakeLists.txt").write_text(project)
    run("cmake", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=tmp_path)
    run("cmake", "--build", "out", cwd=tmp_path)
    # Nothing but this library lies where the program looks.
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(prefix / "lib" / "libgex_run.so.0.1", alone)
    out = run(tmp_path / "out" / "user", model, "trust", cwd=tmp_path, LD_LIBRARY_PATH=str(alone))
    assert out == "machine cod 1.31326 4.01815\n"
    out = run(tmp_path / "out" / "user", model, cwd=tmp_path, LD_LIBRARY_PATH=str(alone))
    assert out == "interpreter 1.31326 4.01815\n"


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="there is no pkg-config")
def test_pkg_config_knows_the_run_library(
    prefix: pathlib.Path, model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "user.cpp").write_text(RUN_PROGRAM)
    flags = run("pkg-config", "--cflags", "--libs", "gex_run", cwd=tmp_path,
                PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig")).split()  # fmt: skip
    run("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "user.cpp", *flags, "-o", "user",
        cwd=tmp_path)  # fmt: skip
    out = run(tmp_path / "user", model, "trust", cwd=tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"))
    assert out == "machine cod 1.31326 4.01815\n"
