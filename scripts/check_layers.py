"""Include directions: a folder of src may include only the folders named for it here."""

import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"

BASE = {"base"}
IR = BASE | {"ir"}
OPS = IR | {"loop", "ops"}
ALLOWED = {
    "base": BASE,
    "ir": IR,
    "loop": IR | {"loop"},
    "ops": OPS,
    "interp": OPS | {"interp", "program/kernel_abi.hpp"},
    "passes": OPS | {"interp", "passes"},
    "program": BASE | {"program"},
    "problems": BASE | {"problems"},
    "backend": OPS | {"program", "backend", "problems"},
    "lower": OPS | {"program", "backend", "lower", "problems"},
    "plan": BASE | {"program", "plan"},
    "runtime": BASE | {"program", "plan", "runtime"},
}
STAGES = OPS | {"interp", "passes", "program", "backend", "lower", "plan", "runtime"}
STAGES |= {"emit", "cache", "compile"}
for folder in ("emit", "cache", "compile"):
    ALLOWED[folder] = STAGES
ALLOWED["frontend"] = STAGES | {"frontend"}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def main() -> int:
    bad = []
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".cpp", ".hpp", ".h"):
            continue
        layer = path.relative_to(SRC).parts[0]
        for target in INCLUDE.findall(path.read_text()):
            folder = target.split("/")[0]
            if folder == "gex" or target in ALLOWED[layer] or folder in ALLOWED[layer]:
                continue
            bad.append(f"{path.relative_to(SRC.parent)}: {layer} may not include {target}")
    print("\n".join(bad) if bad else "layers: every include points down")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
