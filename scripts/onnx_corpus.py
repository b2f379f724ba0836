"""Writes the models of the onnx package's node tests into a folder: all operators.

onnx_corpus.py FOLDER
"""

from __future__ import annotations

import pathlib
import sys

from onnx.backend.test.case.node import collect_testcases


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    count = 0
    for case in collect_testcases(None):
        data = case.model.SerializeToString() if case.model is not None else b""
        if 0 < len(data) < 20000:
            (folder / f"{case.name}.onnx").write_bytes(data)
            count += 1
    print(f"{count} models in {folder}")


if __name__ == "__main__":
    main()
