"""Tensors of every node as files, two dumps compared, prints and saves from inside a graph."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import torch

import gex
import gex.npugraph_ex
from gex.debug.comparison import compare
from gex.debug.diff import diff, main
from gex.fx_stage import effect_ops


def compiled(fn: Any, backend: str = "npugraph_ex", **options: Any) -> Any:
    return torch.compile(fn, backend=backend, fullgraph=True, dynamic=False, options=options)


def add_sub(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x + y
    return a - x


def leaf(folder: pathlib.Path) -> pathlib.Path:
    return folder / "worldsize1_global_rank0"


def rows(folder: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("backend", ["npugraph_ex", "gex"])
def test_case_71_every_node_and_input_has_a_file(
    tmp_path: pathlib.Path, backend: str, device: str
) -> None:
    fn = compiled(add_sub, backend, dump_tensor_data=True, data_dump_dir=str(tmp_path))
    x, y = torch.randn(3, device=device), torch.randn(3, device=device)
    torch.testing.assert_close(fn(x, y), y)
    names = {path.name for path in leaf(tmp_path).glob("*.pt")}
    assert names == {"arg0_1_0.pt", "arg1_1_0.pt", "add_0.pt", "sub_0.pt"}
    assert torch.equal(torch.load(leaf(tmp_path) / "add_0.pt"), x + y)
    assert torch.equal(torch.load(leaf(tmp_path) / "arg1_1_0.pt"), y)
    index = rows(leaf(tmp_path))
    assert [row["node"] for row in index] == ["arg0_1", "arg1_1", "add", "sub"]
    assert index[2]["target"] == "add.Tensor" and "in add_sub" in index[2]["line"]
    assert gex.reports()[-1].eager_reason is None
    fn(2 * x, y)  # a replay replaces the files
    assert torch.equal(torch.load(leaf(tmp_path) / "add_0.pt"), 2 * x + y)
    assert len(list(leaf(tmp_path).glob("*.pt"))) == 4


def test_case_71_a_node_saved_by_hand_is_not_dumped_twice(
    tmp_path: pathlib.Path, device: str
) -> None:
    by_hand = str(tmp_path / "by_hand.pt")

    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x + 1
        gex.ops.save(a, save_path=by_hand)
        return a * 2

    compiled(fn, dump_tensor_data=True, data_dump_dir=str(tmp_path))(torch.ones(2, device=device))
    assert {p.name for p in leaf(tmp_path).glob("*.pt")} == {"arg0_1_0.pt", "mul_0.pt"}
    assert torch.equal(torch.load(tmp_path / "by_hand_0.pt"), torch.full((2,), 2.0, device=device))


def test_case_71_the_original_graph_runs_without_capture(
    tmp_path: pathlib.Path, device: str
) -> None:
    options = {"data_dump_dir": str(tmp_path), "data_dump_stage": "original"}
    x, y = torch.randn(3, device=device), torch.randn(3, device=device)
    compiled(add_sub, dump_tensor_data=True, **options)(x, y)
    report = gex.reports()[-1]
    assert report.runner is None and "original" in str(report.eager_reason)
    assert torch.equal(torch.load(leaf(tmp_path) / "sub_0.pt"), x + y - x)


def test_files_are_numbered_by_step_on_request(tmp_path: pathlib.Path, device: str) -> None:
    options = {"data_dump_dir": str(tmp_path), "data_dump_by_step": True}
    fn = compiled(add_sub, dump_tensor_data=True, **options)
    for step in range(3):
        fn(torch.full((2,), float(step), device=device), torch.ones(2, device=device))
    for step in range(3):
        saved = torch.load(leaf(tmp_path) / f"add_0_step{step}.pt")
        assert torch.equal(saved, torch.full((2,), step + 1.0, device=device))
    assert len(diff(tmp_path, tmp_path).compared) == 12


def test_several_outputs_are_dumped_one_by_one(tmp_path: pathlib.Path, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        values, indices = x.sort()
        return values + indices

    compiled(fn, dump_tensor_data=True, data_dump_dir=str(tmp_path))(
        torch.tensor([3.0, 1.0], device=device)
    )
    assert torch.load(leaf(tmp_path) / "getitem_0.pt").tolist() == [1.0, 3.0]
    assert torch.load(leaf(tmp_path) / "getitem_1_0.pt").tolist() == [1, 0]


def test_force_eager_writes_numpy_files_for_each_step(tmp_path: pathlib.Path, device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gex.ops.print(x)
        return torch.cat([x, y]).to(torch.bfloat16)

    options = {"data_dump_dir": str(tmp_path), "force_eager": True}
    run = compiled(fn, dump_tensor_data=True, **options)
    for step in range(2):
        run(torch.full((2,), float(step), device=device), torch.ones(1, device=device))
    graph = next(leaf(tmp_path).iterdir())
    assert graph.name.startswith("graph_")
    assert sorted(p.name for p in graph.iterdir()) == ["0", "1"]
    for step in range(2):
        inputs = sorted((graph / str(step)).glob("cat-cat.default.INPUT.0.*.npy"))
        assert [np.load(p).tolist() for p in inputs] == [[step, step], [1]]
        (rounded,) = (graph / str(step)).glob("_to_copy-*.OUTPUT.0.*.npy")
        assert np.load(rounded).dtype == np.float32
        assert not list((graph / str(step)).glob("*print*"))
        roles = [row["role"] for row in rows(graph / str(step)) if row["node"] == "cat"]
        assert roles == ["INPUT.0.0", "INPUT.0.1", "OUTPUT.0"]


def test_merging_kernels_switches_the_optimised_dump_off(
    tmp_path: pathlib.Path, device: str
) -> None:
    options = {"dump_tensor_data": True, "data_dump_dir": str(tmp_path)}
    with pytest.warns(UserWarning, match="super_kernel_optimize"):
        compiled(add_sub, super_kernel_optimize=True, **options)(
            torch.ones(2, device=device), torch.ones(2, device=device)
        )
    assert not list(tmp_path.rglob("*.pt"))


# --- two dumps ------------------------------------------------------------------------------


def dump(folder: pathlib.Path, scale: float, device: str, **options: Any) -> pathlib.Path:
    folder.mkdir()

    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x.exp()
        b = a * scale
        return b + 1

    options |= {"dump_tensor_data": True, "data_dump_dir": str(folder)}
    compiled(fn, **options)(torch.linspace(0, 1, 8, device=device))
    return folder


def test_diff_names_the_first_node_that_differs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    right = dump(tmp_path / "right", 2.0, device, data_dump_stage="original")
    same = dump(tmp_path / "same", 2.0, device)
    wrong = dump(tmp_path / "wrong", 2.5, device)
    assert diff(right, same).first_mismatch is None
    report = diff(right, wrong)
    assert [d.entry.key for d in report.compared] == [
        f"{n}.OUTPUT.0" for n in ("arg0_1", "exp", "mul", "add")
    ]
    assert report.first_mismatch is not None
    assert report.first_mismatch.entry.key == "mul.OUTPUT.0"
    assert report.first_mismatch.result.max_rel == pytest.approx(0.25, rel=1e-3)
    assert main([str(right), str(wrong)]) == 1
    text = capsys.readouterr().out
    assert "first mismatch: mul.OUTPUT.0 (mul.Tensor) at" in text and "in fn" in text
    assert main([str(right), str(same)]) == 0


def test_diff_compares_compiled_code_with_numpy_files_of_eager_mode(
    tmp_path: pathlib.Path, device: str
) -> None:
    report = diff(
        dump(tmp_path / "a", 2.0, device, force_eager=True), dump(tmp_path / "b", 2.0, device)
    )
    assert {"exp.OUTPUT.0", "mul.OUTPUT.0"} <= {d.entry.key for d in report.compared}
    assert report.first_mismatch is None
    assert "exp.INPUT.0" in report.only_first


def test_diff_of_folders_without_an_index(tmp_path: pathlib.Path) -> None:
    for name, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", np.full(3, value))
    report = diff(tmp_path / "a", tmp_path / "b")
    assert report.first_mismatch is not None and report.first_mismatch.entry.key == "x"
    with pytest.raises(FileNotFoundError, match="missing"):
        diff(tmp_path / "a", tmp_path / "missing")


def test_diff_takes_steps_in_their_order(tmp_path: pathlib.Path) -> None:
    for step in (10, 9):
        folder = tmp_path / str(step)
        folder.mkdir()
        np.save(folder / "x.npy", np.full(1, float(step)))
        row = {"node": "x", "role": "OUTPUT.0", "file": "x.npy"}
        row |= {"dtype": "float64", "target": "exp", "line": ""}
        (folder / "index.jsonl").write_text(json.dumps(row) + "\n")
    entries = [d.entry for d in diff(tmp_path, tmp_path).compared]
    assert [float(entry.array()[0]) for entry in entries] == [9.0, 10.0]
    assert [entry.key for entry in entries] == ["x.OUTPUT.0", "x.OUTPUT.0#2"]


def test_comparison_text() -> None:
    a = np.array([1.0, 0.0, np.nan, np.inf])
    assert compare(a, a.copy(), 0.0, 0.0).same
    assert compare(a, a.copy(), 0.0, 0.0).cosine == 1.0, "of what is finite"
    off = compare(a, np.array([1.0, 0.5, np.nan, np.inf]), 1e-3, 1e-5)
    assert not off.same and off.first == (1,) and off.max_abs == 0.5
    no_nan = compare(a, np.array([1.0, 0.0, 0.0, np.inf]), 1e-3, 1e-5)
    assert not no_nan.same and "1 elements differ, the first at [2]" in no_nan.text
    assert "shapes differ" in compare(a, a[:2], 1e-3, 1e-5).text
    assert not compare(np.array([1]), np.array([2]), 10.0, 10.0).same, "integers are exact"
    assert compare(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0, 0).cosine == 0.0


# --- from inside a graph --------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["npugraph_ex", "gex", "npugraphs", "eager"])
def test_print_runs_at_every_call_in_its_order(
    capfd: pytest.CaptureFixture[str], backend: str, device: str
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x + 1
        gex.ops.print(a, "first")
        gex.npugraph_ex.print_npugraph_tensor(x, tensor_name="second")
        return x * 0

    run = torch.compile(fn, backend=backend, fullgraph=True)
    for i in range(3):
        run(torch.tensor([float(i)], device=device))
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["first", "second"] * 3
    assert lines[4] == "first: tensor([3.]), shape=[1], dtype=torch.float32"


def test_print_in_a_training_step_runs_once(capfd: pytest.CaptureFixture[str], device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        gex.ops.print(y, "y")
        return (y * y).sum()

    x = torch.zeros(2, requires_grad=True, device=device)
    torch.compile(fn, backend="gex")(x).backward()
    assert capfd.readouterr().out.count("y:") == 1
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


def test_print_is_allowed_in_strict_mode(capfd: pytest.CaptureFixture[str], device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        gex.ops.print(x)
        return x + 1

    compiled(fn, "gex", strict=True)(torch.ones(1, device=device))
    assert capfd.readouterr().out.startswith("tensor: tensor([1.])")
    assert gex.reports()[-1].calls == []


@pytest.mark.parametrize("backend", ["npugraph_ex", "npugraphs"])
def test_case_72_saves_of_one_path_are_numbered(
    tmp_path: pathlib.Path, backend: str, device: str
) -> None:
    numbered, one, stepped = (str(tmp_path / name) for name in ("x.pt", "one.bin", "s"))

    def fn(x: torch.Tensor) -> torch.Tensor:
        effect_ops.save_npugraph_tensor(x, save_path=numbered)
        effect_ops.save_npugraph_tensor([x, x + 1], save_path=numbered)
        effect_ops.save_npugraph_tensor(x, save_path=one, overwrite=True)
        effect_ops.save_npugraph_tensor(x, save_path=stepped, by_step=True)
        return x * 2

    run = torch.compile(fn, backend=backend, fullgraph=True)
    for i in range(2):
        run(torch.tensor([float(i)], device=device))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"x_0.pt", "x_1.pt", "one.bin", "s_0_step0.pt", "s_0_step1.pt"}
    assert torch.load(tmp_path / "x_0.pt").tolist() == [1.0]
    pair = torch.load(tmp_path / "x_1.pt")
    assert isinstance(pair, list) and [t.tolist() for t in pair] == [[1.0], [2.0]]
    assert torch.load(tmp_path / "s_0_step0.pt").tolist() == [0.0]


def test_saves_outside_a_graph(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    for value in (1.0, 2.0):
        gex.ops.save(torch.tensor(value, device=device), save_path=str(tmp_path / "x"))
    assert torch.load(tmp_path / "x_1.pt").item() == 2.0
    monkeypatch.chdir(tmp_path)
    gex.ops.save(torch.ones(1, device=device))
    assert len(list(tmp_path.glob("tensor_*_0.pt"))) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([1],), TypeError, "expected a tensor"),
        ((1,), TypeError, "expected tensors"),
        ((torch.ones(1),), TypeError, "save_path"),
        ((torch.ones(1),), ValueError, "no file name"),
        ((torch.ones(1),), TypeError, "overwrite"),
    ],
)
def test_saves_reject_what_they_cannot_save(
    arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    keywords: dict[str, Any] = {
        "save_path": {"save_path": 3},
        "no file name": {"save_path": ""},
        "overwrite": {"overwrite": 1},
    }.get(words, {})
    with pytest.raises(error, match=words):
        gex.ops.save(*arguments, **keywords)


def test_print_rejects_what_is_not_a_tensor(device: str) -> None:
    with pytest.raises(TypeError, match="expected a tensor"):
        gex.ops.print(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be a str"):
        gex.ops.print(torch.ones(1, device=device), 3)  # type: ignore[arg-type]


# --- NaN and infinity -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["npugraph_ex", "gex"])
def test_detect_nan_names_the_op_and_the_line(backend: str, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x - 1
        z = torch.log(y)  # the line that makes it
        return (z * 2).sum()

    run = compiled(fn, backend, detect_nan=True)
    assert run(torch.tensor([2.0, 3.0], device=device)).isfinite()
    with pytest.raises(gex.NonFiniteValue, match=r"aten.log.default.*first NaN: 1 of 2") as error:
        run(torch.tensor([0.0, 3.0], device=device))
    line = fn.__code__.co_firstlineno + 2
    assert f"test_npugraph_ex_dumps.py:{line} in fn" in str(error.value)
    assert "[-1, 2]" in str(error.value)


def test_detect_nan_reports_overflow_in_half_precision(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    with pytest.raises(FloatingPointError, match=r"aten.mul.Tensor.*overflow"):
        compiled(fn, detect_nan=True)(torch.full((2,), 300.0, dtype=torch.float16, device=device))


def test_detect_nan_ignores_infinities_of_inputs(device: str) -> None:
    def fn(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        mask = torch.triu(torch.full((4, 4), float("-inf"), device=device), 1)
        return (x @ x.T + mask).softmax(-1) + given

    x, given = torch.randn(4, 4, device=device), torch.full((4, 4), float("nan"), device=device)
    out = compiled(fn, detect_nan=True)(x, given)
    assert out.isnan().all()


def test_nan_check_by_environment(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sqrt() + 1

    x = torch.tensor([-1.0], device=device)
    assert compiled(fn, "gex")(x).isnan()
    monkeypatch.setenv("GEX_CHECK_NAN", "1")
    torch._dynamo.reset()
    with pytest.raises(gex.NonFiniteValue, match=r"aten\.sqrt"):
        compiled(fn, "gex")(x)
