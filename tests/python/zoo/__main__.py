"""`python -m zoo [model or family ...]`: what becomes of each model, one line for each way."""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import Counter

import torch
import transformers

from zoo import harness
from zoo.families import FAMILIES, MODELS

_HEAD = "| model | way | graphs | native | largest error | first call s | calls |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models or families; all if none is given")
    parser.add_argument("--ways", default="static,dynamic,backward,generate")
    arguments = parser.parse_args()
    names = [n for name in arguments.names for n in FAMILIES.get(name, {name: None})]
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    print(_HEAD)
    print("|" + "---|" * (_HEAD.count("|") - 1))
    total: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    failures = []
    for name in names or MODELS:
        for way, run in harness.ways(MODELS[name]).items():
            if way not in arguments.ways.split(","):
                continue
            try:
                f = run(MODELS[name])
            except Exception as problem:  # the table goes on; the end names it
                text = " ".join(f"{type(problem).__name__}: {problem}".split())[:500]
                failures.append(f"{name} {way}: {text}")
                print(f"| {name} | {way} | FAILED: {text}", flush=True)
                continue
            total.update(f.calls)
            reasons |= f.reasons
            calls = ", ".join(f"{op} x{n}" for op, n in f.calls.most_common())
            extra = f", {f.tokens} distinct tokens" if way == "generate" else ""
            print(
                f"| {name} | {way}{extra} | {f.graphs} | {f.native_share:.1%} | {f.error:.1e} "
                f"| {f.first_call:.1f} | {calls} |",
                flush=True,
            )
    print(
        f"\n{len(names or MODELS)} models, torch {torch.__version__}, "
        f"transformers {transformers.__version__}; {len(failures)} failed."
    )
    for op, count in total.most_common():
        print(f"- {op} x{count}: {reasons[op]}")
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
