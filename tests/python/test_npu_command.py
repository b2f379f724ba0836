"""`python -m gex.npu` runs programs as Python itself would."""

from __future__ import annotations

from pathlib import Path

from npu_run import run_npu, run_python, succeed

_SHOW = "import sys; print(__name__, sys.argv, sys.path[0])\n"


def test_without_arguments_the_usage_is_printed() -> None:
    done = run_npu()
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m gex.npu script.py")


def test_script_sees_its_own_name_arguments_and_path(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text(_SHOW + "print(__file__, __spec__, sys.modules['__main__'].__file__)\n")
    assert (
        succeed("show.py", "-x", "1", cwd=tmp_path)
        == run_python("show.py", "-x", "1", cwd=tmp_path).stdout
    )


def test_module_runs_as_main(tmp_path: Path) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(_SHOW + "from . import other; print(__package__)\n")
    (package / "other.py").write_text("")
    ours = succeed("-m", "some_package", "a", cwd=tmp_path)
    assert ours == run_python("-m", "some_package", "a", cwd=tmp_path).stdout


def test_error_shows_the_scripts_own_traceback(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("def f():\n    raise ValueError('too bad')\n\n\nf()\n")
    ours, plain = run_npu(str(script)), run_python(str(script))
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr == plain.stderr


def test_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("x = = 1\n")
    assert run_npu(str(script)).stderr == run_python(str(script)).stderr


def test_exit_code_is_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "leave.py"
    script.write_text("import sys\nsys.exit(7)\n")
    assert run_npu(str(script)).returncode == 7


def test_missing_script_is_reported() -> None:
    done = run_npu("no_such_script.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr and "no_such_script.py" in done.stderr


def test_missing_module_is_reported() -> None:
    done = run_npu("-m", "no_such_module")
    assert done.returncode != 0
    assert "No module named no_such_module" in done.stderr


def test_importing_gex_leaves_torch_alone() -> None:
    code = (
        "import torch, sys; to = torch.Tensor.to; zeros = torch.zeros\n"
        "import gex, gex.npu, gex.npu.installation\n"
        "assert not hasattr(torch, 'npu') and 'torch_npu' not in sys.modules\n"
        "assert torch.Tensor.to is to and torch.zeros is zeros\n"
        "assert torch._C._get_privateuse1_backend_name() == 'privateuseone'\n"
        "assert not gex.npu.installed()\n"
        "gex.npu.install(); gex.npu.install()\n"
        "assert gex.npu.installed() and torch.npu.is_available()\n"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


def test_device_that_does_not_exist_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("GEX_NPU_DEVICE", "tpu")
    done = run_npu("-c", "pass")
    assert done.returncode == 2
    assert "GEX_NPU_DEVICE='tpu': must be 'cpu' or 'cuda'" in done.stderr
