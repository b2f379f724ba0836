"""`python -m zoo [model or family ...]`: runs each model and prints one line per mode."""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import Counter

import torch
import transformers

from zoo import harness, page, records
from zoo.families import FAMILIES, MODELS

_HEAD = "| model | mode | graphs | native | largest error | first call s | calls |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models or families; all if none is given")
    parser.add_argument("--modes", default=",".join(harness.MODES))
    parser.add_argument(
        "--resume", action="store_true", help="leave out what passed with this very build"
    )
    parser.add_argument("--page", action="store_true", help="put the results into docs/zoo.md")
    return parser.parse_args()


def _line(record: records.Record) -> str:
    if not record.passed:
        return f"| {record.model} | {record.mode} | FAILED: {record.failure}"
    calls = ", ".join(f"{op} x{n}" for op, n in Counter(record.calls).most_common())
    extra = f", {record.tokens} distinct tokens" if record.tokens else ""
    extra += f", {record.recompiled} graphs again" if record.recompiled else ""
    return (
        f"| {record.model} | {record.mode}{extra} | {record.graphs} | {record.native_share:.1%} "
        f"| {record.error:.1e} | {record.seconds:.1f} | {calls} |"
    )


def main() -> None:
    arguments = _arguments()
    names = [n for name in arguments.names for n in FAMILIES.get(name, {name: None})] or MODELS
    wanted = arguments.modes.split(",")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    print(_HEAD)
    print("|" + "---|" * (_HEAD.count("|") - 1))
    found = []
    for name in names:
        model = MODELS[name]
        for mode in (mode for mode in harness.MODES if mode in wanted):
            if reason := model.cannot.get(mode):
                print(f"| {name} | {mode} | left out, PyTorch itself can't: {reason}")
            elif mode in harness.modes(model):
                record = records.passed_before(name, model, mode) if arguments.resume else None
                if record is not None:
                    print(f"| {name} | {mode} | left out: passed with this build at {record.when}")
                    continue
                found.append(records.run(name, model, mode))
                print(_line(found[-1]), flush=True)
    failures = [record for record in found if not record.passed]
    print(
        f"\n{len(names)} models, torch {torch.__version__}, "
        f"transformers {transformers.__version__}; {len(failures)} failed."
    )
    reasons = {op: reason for record in found for op, reason in record.reasons.items()}
    total = sum((Counter(record.calls) for record in found), Counter())
    for op, count in total.most_common():
        print(f"- {op} x{count}: {reasons[op]}")
    if arguments.page:
        page.write()
    if failures:
        raise SystemExit("\n".join(f"{r.model} {r.mode}: {r.failure}" for r in failures))


if __name__ == "__main__":
    main()
