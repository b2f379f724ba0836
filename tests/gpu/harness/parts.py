"""The parts of tests/gpu/run: commands whose output is read, and units that workers run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pool import Pool
from results import ROOT, Record, Results

_HERE = Path(__file__).resolve().parent
_FEATURES = "tests/gpu/python/features"
# Run over a driver library that computes on the host, or on the GPU where there is one.
_EMULATED = [f"tests/python/test_{name}.py" for name in ("fake_gpu", "fake_gpu_frozen")]
_PYTHON = ["tests/gpu/python/test_torch_cuda.py", "tests/python/test_npugraph_ex_gpu.py"]


@dataclass(frozen=True)
class Settings:
    build: Path
    python_path: Path  # of the built package
    device: str
    jobs: int
    samples: int
    limit: float  # seconds that one part may take
    resume: bool  # skip what already ran with these sources
    failed: bool  # only what failed last
    units: str  # a regular expression; "": all
    variables: tuple[tuple[str, str], ...] = ()  # of the environment

    def environment(self) -> dict[str, str]:
        found = dict(os.environ) | dict(self.variables)
        file = self.build / "gpu" / "environment.json"
        if file.exists():
            found |= json.loads(file.read_text())
        folders = [self.python_path, _HERE, ROOT / "tests" / "python"]
        before = found.get("PYTHONPATH")
        found["PYTHONPATH"] = ":".join([*map(str, folders), *([before] if before else [])])
        found["PYTHONUNBUFFERED"] = "1"
        return found


Part = Callable[[Settings, str, Results], None]


def _lines(command: list[str], settings: Settings, part: str) -> Iterator[str]:
    """The output of the command; the last line is its exit status."""
    log = settings.build / "gpu" / f"{part}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    limit = ["timeout", "--kill-after=10", str(settings.limit)]
    process = subprocess.Popen(
        [*limit, *command],
        cwd=ROOT,
        env=settings.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    last: list[str] = []
    with log.open("w") as file:
        for line in process.stdout:
            file.write(line)
            file.flush()
            last = [*last[-11:], line.strip()]
            yield line.rstrip()
    code = process.wait()
    yield f"exit status {code}" + ("" if code == 0 else ": " + " / ".join(last))


def _outcome_of_exit(line: str) -> str:
    return {"0": "right", "124": "time-out"}.get(re.split(r"[ :]", line)[2], "wrong")


def build(settings: Settings, part: str, results: Results) -> None:
    start = time.monotonic()
    line = ""
    for line in _lines(["tests/gpu/build", str(settings.build)], settings, part):
        print(f"  {line}", flush=True)
    took = round(time.monotonic() - start, 1)
    results.add(Record(part, "build", _outcome_of_exit(line), line, took))


def conformance(settings: Settings, part: str, results: Results) -> None:
    """Each conformance case over each driver, and the tests of CUDA code."""
    seen = set()
    tail: list[str] = []
    program = str(settings.build / "gpu" / "test_gpu")
    for line in _lines([program, settings.units or "."], settings, part):
        tail = [*tail[-4:], line]
        match = re.match(r"(ok|FAILED|skipped) +(\S+) \((\d+) ms\)", line)
        if match:
            outcome = {"ok": "right", "FAILED": "wrong", "skipped": "left out"}[match[1]]
            detail = " / ".join(tail) if outcome == "wrong" else ""
            results.add(Record(part, match[2], outcome, detail, int(match[3]) / 1000))
            seen.add(match[2])
        if line.startswith(("conformance over", "FAILED")):
            print(f"  {line}", flush=True)
    outcome = _outcome_of_exit(tail[-1])
    results.add(Record(part, "exit", outcome if seen else "error", tail[-1]))
    if not settings.units:
        results.forget(part, seen | {"exit"})


def control(settings: Settings, part: str, results: Results) -> None:
    """If and while as conditional nodes of CUDA graphs."""
    of_control = replace(
        settings,
        units=settings.units or r"cuda_graph/.*_(if|while)_|CudaControl",
        variables=(*settings.variables, ("GEX_CUDA_CONTROL_NODES", "1")),
    )
    conformance(of_control, part, results)


def kernels(settings: Settings, part: str, results: Results) -> None:
    """Every generated kernel, compiled by nvcc, against expected results."""
    start = time.monotonic()
    seen = {"all kernels"}
    checked = line = ""
    command = ["tests/gpu/kernels/run", str(settings.build / "kernels"), "--check"]
    for line in _lines(command, settings, part):
        if match := re.match(r"FAILED ([^,]+), (.*)", line):
            seen.add(match[1])
            results.add(Record(part, match[1], "wrong", match[2]))
        if line.startswith("checked"):
            checked = line
        print(f"  {line}", flush=True)
    outcome = _outcome_of_exit(line)
    took = round(time.monotonic() - start, 1)
    results.add(Record(part, "all kernels", outcome, f"{checked} {line}", took))
    results.forget(part, seen)


def _script(name: str, arguments: Callable[[Settings], list[str]]) -> Part:
    """A script of bench/, which writes its figures into a JSON file in the build folder."""

    def run(settings: Settings, part: str, results: Results) -> None:
        start = time.monotonic()
        line = ""
        file = settings.build / f"{part}.json"
        file.unlink(missing_ok=True)
        command = ["python3", f"bench/{name}.py", *arguments(settings), "--json", str(file)]
        for line in _lines(command, settings, part):
            print(f"  {line}", flush=True)
        took = round(time.monotonic() - start, 1)
        rows = json.loads(file.read_text())["rows"] if file.exists() else []
        figures = {
            row.get("variant") or f"{row['job']}, {row['backend']}": row["tokens_per_s"]
            for row in rows
        }
        results.add(Record(part, name, _outcome_of_exit(line), line, took, figures=figures))

    return run


def _selected(settings: Settings, part: str, units: list[str], results: Results) -> list[str]:
    results.forget(part, set(units))
    chosen = [unit for unit in units if re.search(settings.units, unit)]
    if settings.failed:
        failed = {record.unit for record in results.failures(part)}
        chosen = [unit for unit in chosen if unit in failed]
    if settings.resume:
        chosen = [unit for unit in chosen if not results.is_done(part, unit)]
    return chosen


def _units(module: str, arguments: list[Any], settings: Settings) -> list[str]:
    """Listed in another process, which has the right import paths."""
    code = f"import json, {module} as m; print('\\n' + json.dumps(m.units(*{arguments!r})))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=settings.environment(),
        capture_output=True,
        text=True,
    )
    if found.returncode != 0:
        raise RuntimeError(f"listing the units of {module} failed:\n{found.stderr[-3000:]}")
    return list(json.loads(found.stdout.splitlines()[-1]))


@dataclass(frozen=True)
class Worked:
    """A part whose units are run by workers."""

    module: str
    listing: Callable[[Settings], list[Any]]  # arguments of its units()
    making: Callable[[Settings], list[str]]  # arguments of its make()
    unit_limit: float
    alone: bool = False  # one unit at a time

    def __call__(self, settings: Settings, part: str, results: Results) -> None:
        start = time.monotonic()
        every = _units(self.module, self.listing(settings), settings)
        units = _selected(settings, part, every, results)
        print(f"  {len(units)} of {len(every)} units", flush=True)
        count = 0

        def done(unit: str, answer: dict[str, Any]) -> None:
            nonlocal count
            count += 1
            record = Record(part, unit, **answer)
            results.add(record)
            if not record.good or count % 25 == 0 or self.alone:
                text = " ".join(record.detail.split())[:200]
                when = time.monotonic() - start
                about = f"{unit}: {record.outcome} {text}".rstrip()
                print(f"  [{count}/{len(units)}, {when:.0f} s] {about}", flush=True)

        worker = [sys.executable, str(_HERE / "worker.py"), self.module, *self.making(settings)]
        Pool(
            worker,
            settings.environment(),
            settings.build / "gpu" / part,
            1 if self.alone else settings.jobs,
            self.unit_limit,
            start + max(settings.limit - 30, settings.limit / 2),
        ).run(units, done)
        if count < len(units):
            print(f"  {len(units) - count} units are left: continue with --resume", flush=True)


def _opinfo(dtype: str) -> Worked:
    return Worked(
        "opinfo",
        lambda s: [s.device, dtype],
        lambda s: [s.device, dtype, str(s.samples)],
        unit_limit=60,
    )


def _zoo(mode: str) -> Worked:
    return Worked("zoo_models", lambda s: [mode], lambda s: [s.device, mode], unit_limit=120)


def _pytest(paths: list[str], unit_limit: float) -> Worked:
    return Worked("pytest_case", lambda s: [paths], lambda s: [], unit_limit, alone=True)


_ONNX = Worked("onnx_tests", lambda s: [s.device], lambda s: [s.device], unit_limit=60)

PARTS: dict[str, Part] = {
    "build": build,
    "conformance": conformance,
    "kernels": kernels,
    "python": _pytest(_PYTHON, 90),
    "opinfo-f32": _opinfo("f32"),
    "opinfo-f16": _opinfo("f16"),
    "zoo-static": _zoo("static"),
    "zoo-dynamic": _zoo("dynamic"),
    "features": _pytest([_FEATURES], 150),
    "onnx": _ONNX,
}
# Run only when named.
MORE_PARTS: dict[str, Part] = {
    "zoo-generate": _zoo("generate"),
    "zoo-static-cache": _zoo("static_cache"),
    "zoo-backward": _zoo("backward"),
    "control": control,
    "emulated": _pytest(_EMULATED, 120),
    "bench": _script("cuda_models", lambda s: []),
    "static": _script(
        "cuda_models", lambda s: ["--backends", "npugraph_ex,static", "--jobs", "growing"]
    ),
    "decode": _script(
        "cuda_decode", lambda s: ["--seconds", str(s.limit - 40), "--variants", s.units]
    ),
}


@dataclass(frozen=True)
class Check:
    """Units of another part, with a time limit of their own."""

    part: str
    limit: float
    units: str = ""


# What a GPU should be asked first: all that is new since it was last asked, the most valuable
# first. The records are those of the other parts.
FIRST = (
    Check("python", 100),
    Check("control", 45),
    Check("kernels", 100),
    Check("features", 80, "test_frozen|test_captures.*(mlp|inside_a|wait)|test_host_memory"),
    Check("emulated", 90),
    Check("conformance", 60),
    Check("decode", 160, "^graph|^SuperKernel$"),
    Check("static", 100),
    Check("zoo-dynamic", 80, "^(siglip_vision|led|umt5|bert|resnet|convnext)$"),
    Check("opinfo-f16", 60, "grid_sample|fft_rfftn|fft_rfft2|^conv|^nn_functional_conv"),
    Check("onnx", 60, "conv|gru|lstm|softmax|attention"),
    Check("features", 120, "test_sanitizer"),
)


def first(settings: Settings, part: str, results: Results) -> None:
    """The checks of FIRST within the limit of one part; continue with --resume."""
    end = time.monotonic() + settings.limit
    for check in FIRST:
        name = f"{check.part} {check.units}".strip()
        left = end - time.monotonic()
        if settings.resume and results.is_done(part, name):
            continue
        if left < min(check.limit, 40):
            print(f"  {name}: left out, {left:.0f} s are left: continue with --resume", flush=True)
            continue
        print(f"  {name}: at most {min(left, check.limit):.0f} s", flush=True)
        start = time.monotonic()
        chosen = replace(settings, units=check.units, limit=min(left, check.limit))
        detail = ""
        try:
            _ANY[check.part](chosen, check.part, results)
        except Exception as problem:  # the other checks are as much worth
            detail = f"{type(problem).__name__}: {problem}"[:1000]
        failed = [
            record.unit
            for record in results.failures(check.part)
            if record.sources == results.sources
        ]
        outcome = "error" if detail else "wrong" if failed else "right"
        took = round(time.monotonic() - start, 1)
        results.add(Record(part, name, outcome, detail or ", ".join(failed)[:1000], took))
        results.write()


_ANY = PARTS | MORE_PARTS
MORE_PARTS["first"] = first
# Parts that do not need the build.
WITHOUT_BUILD = ("build", "kernels")
