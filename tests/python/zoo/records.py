"""Results of each run, kept in a file: runs that passed with the same build need not be repeated.

One line of JSON per run, appended; the last line about a run counts.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path

import torch
import transformers
from torch.utils._pytree import tree_leaves

import gex
from zoo import harness
from zoo.model import Model

_ROOT = Path(__file__).resolve().parents[3]
FILE = Path(os.environ.get("GEX_ZOO_RECORD", _ROOT / "build" / "zoo.jsonl"))


@dataclass(frozen=True)
class Record:
    model: str
    mode: str
    key: str  # of what was run: engine, libraries, model
    when: str
    failure: str = ""  # empty: passed
    graphs: int = 0
    recompiled: int = 0
    native_share: float = 1.0
    error: float = 0.0
    seconds: float = 0.0  # of the first call
    tokens: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.failure


def run(name: str, model: Model, mode: str) -> Record:
    """Runs and records; what goes wrong is in the record."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        found = harness.modes(model)[mode](model)
        if not found.graphs:
            raise harness.Difference("gex was given nothing to compile")
        record = Record(
            name,
            mode,
            _key(model),
            now,
            graphs=found.graphs,
            recompiled=found.recompiled,
            native_share=found.native_share,
            error=found.error,
            seconds=round(found.first_call, 1),
            tokens=found.tokens,
            calls=dict(found.calls),
            reasons=found.reasons,
        )
    except Exception as problem:  # any failure is a finding about the model
        record = Record(name, mode, _key(model), now, failure=failure_text(problem))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a") as file:
        file.write(json.dumps(asdict(record)) + "\n")
    return record


def failure_text(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:500]


def passed_before(name: str, model: Model, mode: str) -> Record | None:
    """The record of this run if it passed with this engine, these libraries, this model."""
    record = latest().get((name, mode))
    same = record is not None and record.passed and record.key == _key(model)
    return record if same else None


def latest() -> dict[tuple[str, str], Record]:
    """The last record of each run, by model and mode."""
    if not FILE.exists():
        return {}
    known = {f.name for f in fields(Record)}
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    # Records of another version are those of another build, which don't count.
    records = [Record(**line) for line in lines if set(line) <= known]
    return {(r.model, r.mode): r for r in records}


def _key(model: Model) -> str:
    inputs = [
        (str(leaf.dtype), tuple(leaf.shape)) if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in tree_leaves(model.inputs(2))
    ]
    parts = (model.auto, model.config, model.arguments, model.extra, model.tolerance, inputs)
    return _digest([_engine().encode(), repr(parts).encode()])


@functools.cache
def _engine() -> str:
    """Of the engine's files, this package's judge and the libraries."""
    package = Path(gex.__file__).parent
    libraries = {
        Path(line.split()[-1]).parent
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libgex" in line
    }
    files = [*package.glob("*.py"), *package.glob("*.so"), Path(harness.__file__)]
    files += [file for folder in libraries for file in folder.glob("libgex*.so*")]
    versions = f"{torch.__version__} {transformers.__version__}".encode()
    return _digest([versions, *(file.read_bytes() for file in sorted(set(files)))])


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]
