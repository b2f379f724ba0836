"""The examples in C, C++, .gex text and of the command on the pages, run as a reader runs them.

Python examples: test_guides.py. Those of service.md and custom_ops.md have tests of their own, and
those of the pages about extending gex are in tests/guide.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import textwrap

import numpy as np
import pytest

from processes import run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
GEX = BUILD / "bin" / "gex"

pytestmark = pytest.mark.skipif(
    not GEX.exists() or shutil.which("g++") is None,
    reason="build/bin/gex is not built, or there is no g++",
)

# Pages whose examples are run elsewhere.
OTHERS = {
    "docs/custom_ops.md": "test_custom_kernels.py",
    "docs/service.md": "test_service_page.py",
    "docs/layers.md": "test_layers.py",
    "docs/add_an_op.md": "test_guides.py",
    "docs/add_a_pass.md": "test_guides.py",
    "docs/add_a_kernel.md": "test_guides.py",
}


# Pages whose examples are run here.
EXAMPLES = ["artifact", "c_api", "command", "cuda", "es", "onnx", "passes"]


def blocks(page: str, language: str) -> list[str]:
    """Also those inside lists."""
    text = (ROOT / page).read_text()
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.M | re.S)
    return [textwrap.dedent(block) for block in found]


def library() -> list[str]:
    return [
        f"-I{ROOT}/include",
        f"-I{BUILD}/include",
        f"-L{BUILD}/lib",
        "-lgex",
        f"-Wl,-rpath,{BUILD}/lib",
    ]


def build_and_run(source: str, folder: pathlib.Path) -> str:
    (folder / "x.cpp").write_text(source)
    run("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "x.cpp", *library(), "-o", "x",
        cwd=folder)  # fmt: skip
    return run(folder / "x", cwd=folder)


def test_every_page_with_such_examples_is_known() -> None:
    tested = {"README.md", *(f"docs/{name}.md" for name in EXAMPLES), *OTHERS}
    pages = {
        str(path.relative_to(ROOT))
        for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
        if not path.name.endswith(".zh.md")  # has the examples of the English page
        and any(blocks(str(path.relative_to(ROOT)), kind) for kind in ("cpp", "c", "sh"))
    }
    assert pages <= tested, sorted(pages - tested)
    for test in OTHERS.values():
        assert (ROOT / "tests" / "python" / test).exists(), test


def test_the_graph_of_the_readme(tmp_path: pathlib.Path) -> None:
    (example,) = blocks("README.md", "cpp")
    main = "#include <iostream>\nint main() { std::cout << f()->Print(); }\n"
    assert "sub(" in build_and_run(example + main, tmp_path)


def test_the_graph_of_the_c_page(tmp_path: pathlib.Path) -> None:
    (example,) = blocks("docs/c_api.md", "cpp")
    includes, body = example.split("\n\n", 1)
    given = """
  Tensor a = Tensor::Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  Tensor b = Tensor::Of<float>({4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
"""
    out = build_and_run(
        f"#include <iostream>\n{includes}\nint main() {{{given}{body}\n"
        "  std::cout << results.size();\n}\n",
        tmp_path,
    )
    assert "matmul" in out and out.endswith("1")


def test_the_session_of_the_page_about_model_files(tmp_path: pathlib.Path) -> None:
    (example,) = blocks("docs/artifact.md", "cpp")
    (tmp_path / "model.gex").write_text(
        "symbols batch in [1, 8]\n"
        "graph main(%x: f32[batch, 3, 224, 224]) -> (f32[batch, 1000]) {\n"
        "  %m = reduce_mean(%x) {axes = [1, 2, 3], keepdim = true} : f32[batch, 1, 1, 1]\n"
        "  %r = reshape(%m) {shape = [batch, 1]} : f32[batch, 1]\n"
        "  %scores = expand(%r) {shape = [batch, 1000]} : f32[batch, 1000]\n"
        "  return %scores\n}\n"
    )
    run(GEX, "compile", "model.gex", "-o", "model.gexe", cwd=tmp_path)
    includes, body = example.split("\n\n", 1)
    body = body.replace("x(3 * 224 * 224)", "x(3 * 224 * 224, 2.f)")
    out = build_and_run(
        f"#include <iostream>\n#include <vector>\n{includes}\nint main() {{\n{body}\n"
        "  std::cout << scores[999] << later.get().size();\n}\n",
        tmp_path,
    )
    assert out == "21"


def test_the_import_of_the_page_about_onnx(tmp_path: pathlib.Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(n, float32, ["batch", 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "model.onnx")
    (example,) = blocks("docs/onnx.md", "c")
    out = build_and_run(
        f"#include <cstdio>\n#include <gex/gex.h>\nint main() {{\n{example}\n"
        "  gex_program* program = nullptr;\n"
        '  std::printf("%d\\n", gex_compile(graph, nullptr, &program));\n'
        "  gex_program_destroy(program);\n  gex_graph_destroy(graph);\n}\n",
        tmp_path,
    )
    assert out == "0\n"


def test_the_pass_of_the_page_about_passes(tmp_path: pathlib.Path) -> None:
    (example,) = blocks("docs/passes.md", "cpp")
    (tmp_path / "add_zero.cpp").write_text(example)
    (build, apply) = re.findall(r"^    (g\+\+ .*)\n    (GEX_PLUGINS=.*)$",
                                (ROOT / "docs/passes.md").read_text(), re.M)[0]  # fmt: skip
    run(*shlex.split(build)[:-1], *library(), cwd=tmp_path)
    (tmp_path / "model.gex").write_text(
        "graph main(%x: f32[3]) -> (f32[3]) {\n  %z = full() : f32[]\n"
        "  %y = add(%x, %z) : f32[3]\n  return %y\n}\n"
    )
    variable, *words = shlex.split(apply)
    name, value = variable.split("=")
    out = run(GEX, *words[1:], cwd=tmp_path, **{name: value})
    assert "add(" not in out.split("graph main", 1)[1]


def test_the_commands_of_the_page_about_the_command(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.gex").write_text(
        "symbols s0 in [1, 64]\ngraph main(%x: f32[s0, 3]) -> (f32[s0]) {\n"
        "  %e = exp(%x) : f32[s0, 3]\n  %m = reduce_sum(%e) {axes = [1]} : f32[s0]\n"
        "  return %m\n}\n"
    )
    (script,) = blocks("docs/command.md", "sh")
    path = f"{GEX.parent}{os.pathsep}{os.environ['PATH']}"
    out = run("bash", "-ec", script, cwd=tmp_path, PATH=path)
    whole = run(GEX, "run", "model.gex", "--dim", "s0=4", cwd=tmp_path)
    assert out.startswith(whole)
    assert out.count(whole.split("\n", 1)[1]) == 2  # the kernel has other names


def test_both_columns_of_the_page_about_es(tmp_path: pathlib.Path) -> None:
    text = (ROOT / "docs" / "es.md").read_text()
    lines = [line[4:].split("|") for line in re.findall(r"^    .*\|  .*$|^    .* \|$", text, re.M)]
    left = "\n".join(line[0] for line in lines)
    right = "\n".join(line[1].strip() for line in lines)
    includes, body = left.split("using namespace gex::es;")
    given = """
  Tensor tensor = Tensor::Of<float>({4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  Tensor a = Tensor::Of<float>({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
"""
    out = build_and_run(
        f"#include <cstdio>\n{includes}\nusing namespace gex::es;\nint main() {{{given}{body}\n"
        '  std::printf("%.3f", static_cast<double>(results[0].ToVector<float>()[5]));\n}\n',
        tmp_path,
    )
    numbers = np.arange(12, dtype=np.float32)
    names = {"array": numbers.reshape(4, 3), "a": numbers[:8].reshape(2, 4)}
    exec(right, names)
    assert f"{names['y'][1, 2]:.3f}" == out


def test_the_signatures_on_the_page_about_es_are_those_of_the_header(
    tmp_path: pathlib.Path,
) -> None:
    (example,) = blocks("docs/es.md", "cpp")
    (tmp_path / "x.cpp").write_text(
        f"#include <gex/es.hpp>\nnamespace gex::es {{\n{example}}}\nint main() {{}}\n"
    )
    run("g++", "-std=c++20", "-fsyntax-only", *library()[:2], "x.cpp", cwd=tmp_path)
    for name in re.findall(r"^Holders (\w+)\(", example, re.M):
        assert re.search(rf"\b{name}\(", (ROOT / "include/gex/es.hpp").read_text()) or any(
            re.search(rf"\b{name}\(", path.read_text())
            for path in ROOT.glob("include/gex/es/*.hpp")
        ), name


CUDA_RUNTIME = "typedef struct CUstream_st* cudaStream_t;"  # what the example uses of it


@pytest.mark.parametrize("page", ["docs/cuda.md", "docs/cuda.zh.md"])
def test_the_example_of_a_stream_compiles(page: str, tmp_path: pathlib.Path) -> None:
    (example,) = blocks(page, "cpp")
    source = tmp_path / "stream.cpp"
    source.write_text(f"#include <gex/es.hpp>\n{CUDA_RUNTIME}\n{example}\n")
    run("g++", "-std=c++20", "-Wall", "-fsyntax-only", *library(), source, cwd=tmp_path)
