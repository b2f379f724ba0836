"""Length of functions in C++: more than 60 lines are rejected.

Existing longer ones are listed in scripts/long_functions.txt with their length: they may become
shorter, not longer, and an entry is removed when its function is short enough. Tables stay listed,
with a reason.

check_functions.py [--write] [ROOT]: --write updates the list for functions that became shorter.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from dataclasses import dataclass

LIMIT = 60
CHECKED = ("src", "include", "tools", "tests", "bench", "examples")
SUFFIXES = {".cpp", ".cc", ".c", ".cu", ".hpp", ".h", ".cuh"}
LIST = "scripts/long_functions.txt"

# Comments, raw strings, strings, characters (not the ' between digits), preprocessor lines.
BLANKED = re.compile(
    "|".join(
        [
            r"//(?:\\\n|[^\n])*",
            r"/\*.*?\*/",
            r'R"([^()\\ ]{0,16})\(.*?\)\1"',
            r'"(?:\\.|[^"\\\n])*"',
            r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
            r"^[ \t]*#(?:\\\n|[^\n])*",
        ]
    ),
    re.DOTALL | re.MULTILINE,
)
NAME = re.compile(r"((?:~|operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+|[\w:]+)|[\w:<>,~]+))\s*\($")
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignas", "decltype"}


@dataclass(frozen=True)
class Function:
    name: str
    first: int  # line of its signature
    last: int  # line of its closing brace

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


def blank(text: str) -> str:
    """The text with strings and comments replaced by spaces; line numbers do not change."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def signature(head: str) -> tuple[str, int] | None:
    """Name and offset of the function whose body opens after head; none for a value or enum."""
    depth = 0
    end = len(head.rstrip())
    # The parameters are the first group of parentheses that follows a name; qualifiers, trailing
    # return types and initialisers come behind them.
    for i, c in enumerate(head[:end]):
        if c == "(":
            if depth == 0:
                match = NAME.search(head[: i + 1])
                if match and match.group(1).split("::")[-1].strip() not in NOT_FUNCTIONS:
                    name = match.group(1)
                    if name.endswith("operator"):  # the first group is part of its name
                        return f"{name}()", i
                    if re.fullmatch(r"TEST(_F|_P)?|TYPED_TEST", name):
                        arguments = head[i + 1 : head.find(")", i)]
                        return re.sub(r"\s*,\s*", ".", arguments.strip()), i
                    if name not in ("noexcept", "requires", "explicit", "__attribute__", "throw"):
                        return re.sub(r"\s", "", name), i
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "=" and depth == 0 and "operator" not in head[:i]:
            return None  # a value with an initialiser
    return None


def functions(text: str) -> list[Function]:
    """Functions at namespace or class scope, in order. Lambdas count as part of the enclosing
    function."""
    code = blank(text)
    found = []
    start = 0  # where the current declaration began
    i = 0
    size = len(code)
    while i < size:
        c = code[i]
        if c == ";" or c == "}":
            start = i + 1
        elif c == "{":
            head = code[start:i]
            named = None if opens_scope(head) else signature(head)
            if opens_scope(head):
                start = i + 1
            else:
                close = matching(code, i)
                if named:
                    first = start + len(head) - len(head.lstrip())
                    found.append(Function(named[0], line_of(code, first), line_of(code, close)))
                    # `f() : a{1} { … }`: the braces of an initialiser are not the body.
                    if re.search(r"\)\s*(?:noexcept\s*)?:[^:]", head) and initialiser(code, close):
                        found.pop()
                        i = close + 1
                        continue
                start = close + 1
                i = close
        elif c == "(":
            i = closing(code, i)
        elif c == ":" and code[start:i].strip() in ("public", "private", "protected"):
            start = i + 1
        i += 1
    return found


def initialiser(code: str, close: int) -> bool:
    """Whether the group that closes here is an initialiser: another one or the body follows."""
    return re.match(r"\s*[,{]", code[close + 1 :]) is not None


def opens_scope(head: str) -> bool:
    text = re.sub(r"\s+", " ", head).strip()
    text = re.sub(r"^(?:template ?<.*?> ?(?=class|struct|union))", "", text)
    text = re.sub(r"^(?:inline |export |typedef )*", "", text)
    return re.match(r"(?:namespace|extern|class|struct|union)\b", text) is not None and (
        "(" not in re.sub(r"(?:alignas|__attribute__|decltype) ?\(.*?\)", "", text)
    )


def matching(code: str, i: int) -> int:
    depth = 0
    for j in range(i, len(code)):
        if code[j] == "{":
            depth += 1
        elif code[j] == "}":
            depth -= 1
            if depth == 0:
                return j
    raise ValueError(f"line {line_of(code, i)}: the brace is never closed")


def closing(code: str, i: int) -> int:
    depth = 0
    for j in range(i, len(code)):
        if code[j] == "(":
            depth += 1
        elif code[j] == ")":
            depth -= 1
            if depth == 0:
                return j
    raise ValueError(f"line {line_of(code, i)}: the parenthesis is never closed")


def line_of(code: str, offset: int) -> int:
    return code.count("\n", 0, offset) + 1


def long_functions(root: pathlib.Path) -> tuple[dict[str, Function], list[str]]:
    """'file name' -> function with too many lines; of two with one name the longer."""
    found: dict[str, Function] = {}
    problems = []
    for path in sorted(p for top in CHECKED for p in (root / top).rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        source = path.relative_to(root).as_posix()
        try:
            every = functions(path.read_text())
        except ValueError as e:
            problems.append(f"{source}: {e}")
            continue
        for function in every:
            key = f"{source} {function.name}"
            if function.lines > LIMIT and (key not in found or found[key].lines < function.lines):
                found[key] = function
    return found, problems


def read_list(root: pathlib.Path) -> dict[str, tuple[int, str]]:
    """'file name' -> lines it may have, and the comment behind it."""
    known = {}
    path = root / LIST
    for line in path.read_text().splitlines() if path.exists() else []:
        text, _, reason = line.partition("#")
        if text.strip():
            source, name, lines = text.split()
            known[f"{source} {name}"] = (int(lines), reason.strip())
    return known


def check(root: pathlib.Path) -> list[str]:
    found, problems = long_functions(root)
    known = read_list(root)
    for key, function in found.items():
        source, name = key.split(" ", 1)
        allowed = known.get(key, (LIMIT, ""))[0]
        where = f"{source}:{function.first}: {name} has {function.lines} lines"
        if function.lines > allowed:
            problems.append(f"{where}, at most {allowed} are allowed: split it")
        elif function.lines < allowed:
            problems.append(
                f"{where}, {LIST} says {allowed}: run scripts/check_functions.py --write"
            )
    for key in known.keys() - found.keys():
        problems.append(
            f"{LIST}: {key} is short or no longer exists: run scripts/check_functions.py --write"
        )
    return problems


def write(root: pathlib.Path) -> None:
    """Lengths may only shrink: new or longer functions are not added."""
    found, _ = long_functions(root)
    path = root / LIST
    lines = []
    for line in path.read_text().splitlines():
        text, _, reason = line.partition("#")
        if text.strip():
            source, name, length = text.split()
            function = found.get(f"{source} {name}")
            if function is None:
                continue
            line = f"{source} {name} {min(int(length), function.lines)}"
            line += f"  # {reason.strip()}" if reason.strip() else ""
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)  # fmt: skip
    parser.add_argument(
        "--write", action="store_true", help="update the list for functions that became shorter"
    )
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.root.resolve())
    problems = check(arguments.root.resolve())
    print(
        "\n".join(problems) if problems else f"functions: none over {LIMIT} lines but those listed"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
