"""The part of `gex compile` that needs PyTorch: exported programs."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

import torch

from gex._gex import UserError
from gex.export.compiled_module import compile


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="gex compile", allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("-o", "--output")
    parser.add_argument("--cpu", default="v3,v4")
    parser.add_argument("--name")
    given = parser.parse_args(words)
    output = pathlib.Path(given.output or pathlib.Path(given.model).with_suffix(".gexe"))
    try:
        compiled = compile(torch.export.load(given.model))
        compiled.save(output, cpu=given.cpu.split(","), name=given.name or output.stem)
    except (UserError, OSError) as problem:
        print(f"gex: {problem}", file=sys.stderr)
        return 1
    print(f"{output}: {output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
