"""tests/gpu/run: builds and tests gex on the GPU of this machine, part by part.

Each part takes less than 8 minutes. The outcome of every unit of every part is stored in a JSON
file; a table of all parts is written beside it.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from parts import MORE_PARTS, PARTS, WITHOUT_BUILD, Settings
from results import ROOT, Results, markdown, summary_line

_ALL = PARTS | MORE_PARTS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    names = ", ".join(PARTS) + "; only when named: " + ", ".join(MORE_PARTS)
    add("--part", action="append", default=[], help=f"may be given several times: {names}")
    add("--resume", action="store_true", help="skip units that already ran with these sources")
    add("--failed", action="store_true", help="only units that failed when they were last run")
    add("--units", default="", help="only units that match this regular expression")
    add("--build", type=Path, default=Path("build-gpu"), help="folder to build in")
    add("--json", type=Path, help="file of the results; default: gpu.json in the build folder")
    add("--out", type=Path, help="folder that the JSON and the Markdown file are copied to")
    add("--jobs", type=int, default=12, help="worker processes for operators and models")
    add("--samples", type=int, default=4, help="samples of each operator")
    add("--total", type=float, help="seconds that all parts may take together")
    add("--limit", type=float, default=470, help="seconds that one part may take")
    add("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to test the harness")
    add("--python-path", type=Path, help="folder of the built package; default: BUILD/python")
    return parser.parse_args()


def _machine(settings: Settings) -> str:
    code = (
        "import torch; "
        "name = torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'; "
        "print(f'{name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}')"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(
        command, env=settings.environment(), capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def _chosen(names: list[str]) -> list[str]:
    wanted = [name.strip().replace(" ", "-") for text in names for name in text.split(",")]
    unknown = [name for name in wanted if name not in _ALL]
    if unknown:
        raise SystemExit(f"no part {', '.join(unknown)}; there are {', '.join(_ALL)}")
    return wanted or list(PARTS)


def _run(part: str, settings: Settings, results: Results) -> None:
    print(f"{part}:", flush=True)
    start = time.monotonic()
    try:
        _ALL[part](settings, part, results)
    finally:
        results.write()
    took = time.monotonic() - start
    print(f"  {summary_line(results, part) or 'nothing was run'}; {took:.0f} s", flush=True)


def _is_done_command(part: str, results: Results) -> bool:
    """Whether these sources have passed a part that is run as a whole."""
    records = results.of(part)
    current = all(record.sources == results.sources and record.good for record in records)
    return part in ("conformance", "kernels") and bool(records) and current


def main() -> None:
    begin = time.monotonic()
    arguments = _arguments()
    build = (ROOT / arguments.build).resolve()
    settings = Settings(
        build,
        (arguments.python_path or build / "python").resolve(),
        arguments.device,
        arguments.jobs,
        arguments.samples,
        arguments.limit,
        arguments.resume,
        arguments.failed,
        arguments.units,
    )
    chosen = _chosen(arguments.part)
    file = (arguments.json or build / "gpu.json").resolve()
    if file.exists() and not (arguments.resume or arguments.failed or arguments.part):
        file.unlink()  # a complete run starts from scratch
    results = Results(file)
    results.machine = _machine(settings)
    print(f"{results.machine}; sources {results.sources}; results in {file}", flush=True)
    needs_build = any(part not in WITHOUT_BUILD for part in chosen) and "build" not in chosen
    if needs_build and not (settings.python_path / "gex").exists():
        chosen = ["build", *chosen]
    for part in chosen:
        left = (arguments.total or math.inf) - (time.monotonic() - begin)
        if left < 30:
            print(f"{part}: left out, the time is over: continue with --resume", flush=True)
            continue
        if arguments.resume and _is_done_command(part, results):
            print(f"{part}: done before; {summary_line(results, part)}", flush=True)
            continue
        _run(part, replace(settings, limit=min(settings.limit, left)), results)
        if part == "build" and results.failures("build"):
            break
    table = markdown(results, [part for part in _ALL if part in PARTS or results.of(part)])
    file.with_suffix(".md").write_text(table)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for path in (file, file.with_suffix(".md")):
            shutil.copy(path, arguments.out)
    print("\n" + table.split("\n## ")[0])
    if any(results.failures(part) for part in chosen):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
