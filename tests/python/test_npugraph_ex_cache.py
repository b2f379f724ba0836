"""inference.cache_compile and the cache of compiled programs; acceptance cases by number."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gex
from gex.frames import cached_frame
from gex.npugraph_ex.inference import cache_compile, readable_cache

FACTOR = 2


class Model(nn.Module):
    """A layer with `decode` kept in a folder."""

    def __init__(self, folder: Path, dynamic: bool = True, **arguments: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.run = cache_compile(self.decode, cache_dir=str(folder), dynamic=dynamic, **arguments)

    def decode(self, x: torch.Tensor, plus_one: bool = False) -> torch.Tensor:
        y = self.layer(x)
        return y + 1 if plus_one else y

    def forward(self, *args: Any) -> torch.Tensor:
        return self.run(*args)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The functions that were traced; what is kept is not."""
    seen: list[str] = []
    plain = cached_frame.Capture.__init__

    def noted(self: Any, func: Callable[..., Any], *rest: Any) -> None:
        seen.append(func.__name__)
        plain(self, func, *rest)

    monkeypatch.setattr(cached_frame.Capture, "__init__", noted)
    yield seen


@pytest.fixture
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="cache_compile")
        yield


def check(model: nn.Module, *args: Any) -> None:
    torch.testing.assert_close(model(*args), model.decode(*args))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_case_61_second_instance_uses_the_cache_of_the_first(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    first = Model(tmp_path).to(device)
    assert not any(tmp_path.iterdir()), "nothing happens before the first call"
    check(first, torch.randn(2, 4, device=device))
    (path,) = tmp_path.glob("*/*/compiled_module")
    pattern = r"Model_dynamic_aclgraphcache_[0-9a-f]{32}/decode/compiled_module"
    assert re.fullmatch(pattern, str(path.relative_to(tmp_path)))
    assert mode_of(path) == 0o600
    assert traces == ["decode"]
    second = Model(tmp_path).to(device)
    check(second, torch.randn(2, 4, device=device))
    check(second, torch.randn(7, 4, device=device))
    assert traces == ["decode"]


def test_weights_of_the_new_instance_are_used(
    tmp_path: Path, traces: list[str], device: str
) -> None:
    check(Model(tmp_path).to(device), torch.randn(2, 4, device=device))
    other = Model(tmp_path).to(device)
    with torch.no_grad():
        other.layer.weight.fill_(3.0)
    check(other, torch.randn(2, 4, device=device))
    assert traces == ["decode"]


@dataclasses.dataclass
class Batch:
    left: torch.Tensor
    right: torch.Tensor


class Shapes(nn.Module):
    """One method for each thing that has to survive."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.tensor([1.0, 2.0, 3.0]))
        self.tables = [torch.full((3,), 5.0)]

    def not_numbers(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, float("nan"), x) + torch.full_like(x, float("inf"))

    def empty(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.empty(0, 3) + x[:0], x * 2

    def constant(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([10.0, 20.0, 30.0])

    def buffers(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.offset + self.tables[0]

    def structure(self, batch: Batch, parts: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"sum": batch.left + batch.right, "last": parts[-1] * 2}


def structured(x: torch.Tensor) -> tuple[Any, ...]:
    return Batch(x, x + 1), [x, x * 3]


@pytest.mark.parametrize("name", ["not_numbers", "empty", "constant", "buffers", "structure"])
def test_case_62_hit_and_equal(
    name: str, tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    for x in (torch.randn(2, 3, device=device), torch.randn(4, 3, device=device)):
        module = Shapes()
        method = getattr(module, name)
        args = structured(x) if name == "structure" else (x,)
        kept = cache_compile(method, cache_dir=str(tmp_path))
        torch.testing.assert_close(kept(*args), method(*args), equal_nan=True)
    assert traces == [name]


def test_case_62_closure_is_that_of_the_live_function(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    def make(scale: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        def scaled(x: torch.Tensor) -> torch.Tensor:
            return x * scale

        return cache_compile(scaled, cache_dir=str(tmp_path))

    x = torch.randn(3, device=device)
    for scale in (torch.tensor(2.0, device=device), torch.tensor(5.0, device=device)):
        torch.testing.assert_close(make(scale)(x), x * scale)
    assert traces == ["scaled"]


def test_case_63_another_size_is_compiled_not_refused(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    check(Model(tmp_path, dynamic=False).to(device), torch.randn(5, 4, device=device))
    second = Model(tmp_path, dynamic=False).to(device)
    check(second, torch.randn(10, 4, device=device))
    check(second, torch.randn(5, 4, device=device))
    assert traces == ["decode", "decode"]


def test_case_64_both_branches_are_kept(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    first, x = Model(tmp_path).to(device), torch.randn(2, 4, device=device)
    check(first, x, True)
    check(first, x, False)
    assert len(list(tmp_path.glob("*/*/compiled_module"))) == 1
    second = Model(tmp_path).to(device)
    check(second, x, False)
    check(second, x, True)
    assert len(traces) == 2


@pytest.mark.parametrize(
    "options",
    [{"clone_output": True}, {"inplace_pass": False}, {"remove_cat_ops": False}],
    ids=str,
)
def test_case_65_other_options_are_another_folder(
    options: dict[str, Any], tmp_path: Path, traces: list[str]
) -> None:
    assert Model(tmp_path).run.path != Model(tmp_path, options=options).run.path
    assert Model(tmp_path).run.path == Model(tmp_path).run.path
    assert not traces


def test_case_65_edited_source_is_another_folder(tmp_path: Path) -> None:
    paths = set()
    for text in ("x + 1", "x + 2", "x + 1"):
        scope: dict[str, Any] = {}
        exec(f"def edited(x):\n    return {text}\n", scope)
        paths.add(cache_compile(scope["edited"], cache_dir=str(tmp_path)).path)
    assert len(paths) == 2


def test_edited_function_that_is_called_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    helper = tmp_path / "cache_helper_of_test.py"

    def used(x: torch.Tensor) -> torch.Tensor:
        import cache_helper_of_test

        return cache_helper_of_test.change(x)

    for number in (1, 22):
        helper.write_text(f"def change(x):\n    return x + {number}\n")
        sys.modules.pop("cache_helper_of_test", None)
        for name in tmp_path.glob("__pycache__/*"):
            name.unlink()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = cache_compile(used, cache_dir=str(tmp_path / "c"))(
                torch.zeros(2, device=device)
            )
        assert result.tolist() == [number, number]
    assert any("source code of a traced function" in str(w.message) for w in seen)


def test_changed_global_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traces: list[str], device: str
) -> None:
    def times(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    x = torch.ones(2, device=device)
    for factor in (2, 3, 2):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert cache_compile(times, cache_dir=str(tmp_path))(x).tolist() == [factor, factor]
    assert traces == ["times", "times"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace(path: Path) -> None:
    path.write_bytes(b"something else")


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def link(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize("harm", [cut, damage, replace, open_to_all, pipe, link])
def test_case_66_bad_file_is_recomputed_with_one_warning(
    harm: Callable[[Path], None], tmp_path: Path, traces: list[str], device: str
) -> None:
    check(Model(tmp_path).to(device), torch.randn(2, 4, device=device))
    (path,) = tmp_path.glob("*/*/compiled_module")
    harm(path)
    with pytest.warns(UserWarning, match="cache_compile") as seen:
        check(Model(tmp_path).to(device), torch.randn(2, 4, device=device))
    assert len([w for w in seen if "cache_compile" in str(w.message)]) == 1
    assert len(traces) == 2
    assert mode_of(path) == 0o600
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="cache_compile")
        check(Model(tmp_path).to(device), torch.randn(2, 4, device=device))
    assert len(traces) == 2


def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def plus_two(x: torch.Tensor) -> torch.Tensor:
    return x + 2


def test_record_of_another_function_is_not_used(tmp_path: Path) -> None:
    x = torch.zeros(2)
    for function in (plus_one, plus_two):
        cache_compile(function, cache_dir=str(tmp_path))(x)
    (one,) = tmp_path.glob("*/plus_one/compiled_module")
    (two,) = tmp_path.glob("*/plus_two/compiled_module")
    two.write_bytes(one.read_bytes())
    with pytest.warns(UserWarning, match="it was made for .*plus_one, not for .*plus_two"):
        assert cache_compile(plus_two, cache_dir=str(tmp_path))(x).tolist() == [2, 2]
    assert cache_compile(plus_two, cache_dir=str(tmp_path))(x).tolist() == [2, 2]


def test_a_linked_lock_file_is_not_followed(tmp_path: Path) -> None:
    x = torch.zeros(2)
    cache_compile(plus_one, cache_dir=str(tmp_path / "first"))(x)
    (made,) = (tmp_path / "first").glob("*/plus_one/compiled_module")
    folder = tmp_path / "second" / made.parent.relative_to(tmp_path / "first")
    folder.mkdir(parents=True)
    (folder / "compiled_module.lock").symlink_to(tmp_path / "victim")
    with pytest.warns(UserWarning, match="nothing is cached"):
        cache_compile(plus_one, cache_dir=str(tmp_path / "second"))(x)
    assert not (tmp_path / "victim").exists()


def test_case_66_plain_functions_work_and_other_methods_do_not(
    tmp_path: Path, traces: list[str], device: str
) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    for _ in range(2):
        assert cache_compile(double, cache_dir=str(tmp_path))(
            torch.ones(2, device=device)
        ).tolist() == [2.0, 2.0]
    assert traces == ["double"]
    with pytest.raises(ValueError, match=r"is one of .*Path"):
        cache_compile(tmp_path.exists)
    with pytest.raises(ValueError, match="method or a function"):
        cache_compile(nn.ReLU())


def test_case_67_readable_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    check(Model(tmp_path / "c").to(device), torch.randn(2, 4, device=device))
    (path,) = tmp_path.glob("c/*/*/compiled_module")
    file = tmp_path / "new" / "decode.py"
    text = readable_cache(str(path), file=str(file))
    assert capsys.readouterr().out.strip() == text.strip()
    for part in ("Model.decode", "matmul", "RETURN_VALUE", "entries: 1"):
        assert part in text
    assert mode_of(file) == 0o600
    scope: dict[str, Any] = {}
    exec(file.read_text(), scope)
    assert [type(g) for g in scope["GRAPHS"]] == [gex.Graph]
    readable_cache(str(path), print_output=False, file=str(file))
    assert capsys.readouterr().out == ""
    (tmp_path / "link").symlink_to(path)
    for bad in ("missing", "link"):
        with pytest.raises(ValueError, match=bad):
            readable_cache(str(tmp_path / bad))
    (tmp_path / "out").symlink_to(file)
    with pytest.raises(ValueError, match="symbolic link"):
        readable_cache(str(path), print_output=False, file=str(tmp_path / "out"))
    file.chmod(0o644)
    with pytest.raises(PermissionError):
        readable_cache(str(path), print_output=False, file=str(file))


def test_case_68_custom_decompositions(tmp_path: Path, traces: list[str], device: str) -> None:
    def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b

    table = {torch.ops.aten.add.Tensor: lambda t1, t2: t1 * 3}
    a, b = torch.ones(2, device=device), torch.full((2,), 7.0, device=device)
    for _ in range(2):
        kept = cache_compile(add, cache_dir=str(tmp_path), custom_decompositions=table)
        assert kept(a, b).tolist() == [3.0, 3.0]
    assert cache_compile(add, cache_dir=str(tmp_path))(a, b).tolist() == [8.0, 8.0]
    assert traces == ["add", "add"]


def test_calls_through_pytorch_and_random_numbers_come_back(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(x, torch.ones(3, 3, device=device)) + torch.rand_like(x)

    x = torch.randn(3, 3, device=device) + 3 * torch.eye(3, device=device)
    for _ in range(2):
        kept = cache_compile(noisy, cache_dir=str(tmp_path))
        torch.manual_seed(1)
        want = noisy(x)
        torch.manual_seed(1)
        torch.testing.assert_close(kept(x), want)
    assert traces == ["noisy"]


def test_written_buffers_are_those_of_the_live_module(
    tmp_path: Path, traces: list[str], no_warnings: None, device: str
) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2, device=device))

        def step(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return self.seen * 2

    for _ in range(2):
        module = Counting()
        kept = cache_compile(module.step, cache_dir=str(tmp_path))
        version = module.seen._version
        assert kept(torch.ones(2, device=device)).tolist() == [2.0, 2.0]
        assert kept(torch.ones(2, device=device)).tolist() == [4.0, 4.0]
        assert module.seen.tolist() == [2.0, 2.0]
        assert module.seen._version > version
    assert traces == ["step"]


def test_functions_that_can_not_be_cached_run_and_report_why(tmp_path: Path, device: str) -> None:
    def view(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1)

    x = torch.ones(2, 2, device=device)
    with pytest.warns(UserWarning, match="nothing is cached: it returns views"):
        kept = cache_compile(view, cache_dir=str(tmp_path))
        result = kept(x)
    assert result.data_ptr() == x.data_ptr()


ODD = """
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def decode(self, x):
        return self.layer(x)
"""


def test_methods_of_other_classes_run_and_are_not_cached(tmp_path: Path, device: str) -> None:
    scope: dict[str, Any] = {"__name__": "a_module_that_is_not_there", "nn": nn}
    exec(ODD, scope)
    odd = scope["Odd"]().to(device)
    kept = cache_compile(odd.decode, cache_dir=str(tmp_path))
    with pytest.warns(UserWarning, match="nothing is cached"):
        torch.testing.assert_close(
            kept(torch.ones(3, 2, device=device)), odd.decode(torch.ones(3, 2, device=device))
        )
    torch.testing.assert_close(
        kept(torch.ones(4, 2, device=device)), odd.decode(torch.ones(4, 2, device=device))
    )


def test_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match="is owned by another user"):
        Model(tmp_path)


def test_root_and_ranks_are_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Model(tmp_path)
    monkeypatch.setenv("TORCHAIR_CACHE_HOME", "home")
    kept = cache_compile(model.decode, tp_rank=1, pp_rank=2)
    assert kept.path.parts[-5:-4] == ("home",)
    assert kept.path.parts[-3] == "tp_rank1_pp_rank2"
    monkeypatch.delenv("TORCHAIR_CACHE_HOME")
    default = cache_compile(model.decode).path
    assert default.is_relative_to(tmp_path / ".torchair_cache")


def test_torch_compile_takes_programs_from_the_folder_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.t(), -1).cumsum(0)

    x = torch.randn(5, 5, device=device)
    found = []
    for name in ("GEX_CACHE_DIR", "TORCH_NPU_COMPILE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
        for _ in range(2):
            torch._dynamo.reset()
            with gex.collect() as graphs, torch.no_grad():
                result = torch.compile(function, backend="npugraph_ex")(x)
            torch.testing.assert_close(result, function(x))
            found.append(graphs[0].runner.counters.get("programs_from_cache", 0))
        monkeypatch.delenv(name)
    assert found == [0, 1, 0, 1]
    assert all(mode_of(p) == 0o600 for p in tmp_path.rglob("*") if p.is_file())


STATIC_KERNELS = """
import sys, torch, gex
options = {"static_kernel_compile": True}
if "disabled" in sys.argv:
    options["disable_static_kernel_compile_cache"] = True
@torch.no_grad()
def run(x):
    return torch.softmax(x * 1.2345, -1) + 1
compiled = torch.compile(run, backend="npugraph_ex", dynamic=True, options=options)
compiled(torch.randn(6, 40))
compiled(torch.randn(6, 40))
gex._gex.wait_for_background()
compiled(torch.randn(6, 40))
stats = gex._gex.generator_stats()
print(stats["compiled"], stats["loaded"])
"""


@pytest.mark.slow
def test_case_75_static_kernels_are_kept_unless_that_is_disabled(tmp_path: Path) -> None:
    def run(*arguments: str) -> list[int]:
        environment = {**os.environ, "GEX_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", STATIC_KERNELS, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return [int(n) for n in done.stdout.split()]

    compiled, loaded = run()
    assert compiled >= 2 and loaded == 0, "generic and static code"
    assert run() == [0, compiled]
    again = run("disabled")
    assert again[0] >= 1 and sum(again) == compiled
