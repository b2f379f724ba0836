"""Names that meet in a unity build, which compiles sources of one library together: what one source
declares for itself, no other may declare again (scripts/unity.cmake).

Checked are names in unnamed namespaces, static functions and variables, file-wide using
declarations, and macros. Functions with other parameters are overloads and allowed; a function of
the enclosing namespace with the same parameters is not: calls would be ambiguous. A type of an
outer namespace that a using declaration of another source hides must be written with its namespace.

check_unity.py [ROOT]
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from check_functions import blank, closing, line_of, matching, signature

LAYER = re.compile(
    r'^gex_(?:layer|objects)\((\w+)\s+(?:OBJECT\s+|STATIC\s+)?"([^"]+)"', re.MULTILINE
)
# Libraries beside the layers, in the order in which they take their sources.
OTHERS = (
    ("gex_llvm", r"backend/cpu/llvm/[^/]+[.]cpp"),
    ("_gex", r"frontend/python/"),
)
# Compiled alone: each has machine flags of its own.
ALONE = re.compile(r"backend/cpu/kernels/variant_\w+[.]cpp")
TYPE = re.compile(r"(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[.*?\]\]\s*)?(\w+)")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Name:
    scope: str  # the named namespaces around it
    name: str
    kind: str  # function, type, value, macro
    detail: str  # parameters of a function; the text of a using declaration
    local: bool  # known to this source alone
    line: int


def parameters(text: str) -> str:
    """Types of a parameter list: without names and default values."""
    parts, depth, part = [], 0, ""
    for c in text + ",":
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            part = re.sub(r"\s*=.*", "", part, flags=re.DOTALL)
            # `T name`, `const T& name`, `T`: the last word is a name if a type comes before it.
            part = re.sub(r"(?<=[\w>&*\]])(?:\s+|(?<=[&*>]))(?!const\b)\w+\s*$", "", part.strip())
            parts.append(re.sub(r"\s+", "", part))
            part = ""
        else:
            part += c
    return ", ".join(parts)


def statements(code: str, first: int, end: int) -> Iterator[tuple[str, int, int, int]]:
    """(head, offset of its first character, opening brace or -1, end) of each declaration."""
    start = i = first
    while i < end:
        c = code[i]
        if c == "(":
            i = closing(code, i)
        elif c == ";":
            yield code[start:i], start, -1, i
            start = i + 1
        elif c == "{":
            close = matching(code, i)
            head = code[start:i]
            if re.match(r"\s*[;,=]", code[close + 1 :]) or "=" in head.split("(")[0]:
                # A value with an initialiser, or a type's definition: it ends with the semicolon.
                stop = code.find(";", close)
                yield head, start, i, stop
                start, i = stop + 1, stop
            elif re.match(r"\s*\{", code[close + 1 :]) and "(" in head:
                i = close  # `A::A() : x{1} {…}`
            else:
                yield head, start, i, close
                start, i = close + 1, close
        i += 1


def declared(head: str, braces: bool) -> tuple[str, str, str] | None:
    """Name, kind and detail of a declaration at namespace scope."""
    text = re.sub(r"\s+", " ", head).strip()
    text = re.sub(r"^template ?<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*> ?", "", text)
    text = re.sub(r"^(?:requires \w+(?:<[^>]*>)? ?)", "", text)
    text = re.sub(r"\[\[.*?\]\] ?", "", text)
    text = re.sub(r"^(?:(?:static|inline|constexpr|constinit|thread_local|const) )+", "", text)
    if not text or text.startswith(("static_assert", "friend", "extern ")):
        return None
    if match := re.match(r"namespace (\w+) =", text):
        return match.group(1), "alias", text
    if match := re.match(r"using (\w+) =", text):
        return match.group(1), "type", text
    if text.startswith("using"):
        return (
            (text.split("::")[-1], "using", text)
            if not text.startswith("using namespace")
            else None
        )
    if (match := TYPE.match(text)) and "(" not in text:
        rest = text[match.end() :].strip()
        if braces and (not rest or rest.startswith((":", "final"))):
            return match.group(1), "type", ""
        if not braces and not rest:
            return None  # a forward declaration
    named = signature(text)
    if named:
        name, opening = named
        if "::" in name or "operator" in name:
            return None  # a member, or an overloaded operator
        return name, "function", parameters(text[opening + 1 : closing(text, opening)])
    value = re.match(r"[^=({]*?(\w+)\s*(?:\[[^=]*\])?\s*(?:=|$)", text)
    return (value.group(1), "value", "") if value and " " in text else None


def names_in(code: str, first: int, end: int, scope: str, local: bool) -> Iterator[Name]:
    for head, start, opening, stop in statements(code, first, end):
        text = re.sub(r"\s+", " ", head).strip()
        if match := re.fullmatch(r"(?:inline )?namespace ?([\w:]*)", text):
            inner = "::".join(filter(None, [scope, match.group(1)]))
            yield from names_in(code, opening + 1, stop, inner, local or not match.group(1))
            continue
        if re.match(r"extern ", text) and opening >= 0 and "(" not in text:  # extern "C" {
            yield from names_in(code, opening + 1, stop, scope, local)
            continue
        found = declared(head, opening >= 0)
        if found is None:
            continue
        name, kind, detail = found
        own = local or re.match(r"(?:template ?<.*> ?)?(?:inline )?static ", text) is not None
        own = own or kind in ("using", "alias")
        own = own or (kind == "value" and re.match(r"constexpr|const ", text) is not None)
        line = line_of(code, start + len(head) - len(head.lstrip()))
        yield Name(scope, name, kind, detail, own, line)


def macros(text: str) -> Iterator[Name]:
    """Macros that are still defined at the end of the source."""
    left: dict[str, int] = {}
    for match in DEFINE.finditer(text):
        if match.group(1) == "define":
            left.setdefault(match.group(2), line_of(text, match.start()))
        else:
            left.pop(match.group(2), None)
    for name, line in left.items():
        yield Name("", name, "macro", "", True, line)


def libraries(root: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """The sources of each library that is compiled in chunks, by library and folder of src."""
    order = [*OTHERS, *LAYER.findall((root / "scripts/layers.cmake").read_text())]
    found: dict[str, list[pathlib.Path]] = defaultdict(list)
    for path in sorted((root / "src").rglob("*.cpp")):
        name = path.relative_to(root / "src").as_posix()
        if ALONE.fullmatch(name):
            continue
        for library, pattern in order:
            if re.match(pattern, name):
                found[f"{library} {name.split('/')[0]}"].append(path)
                break
    return found


def clash(a: Name, b: Name) -> bool:
    if a.kind == b.kind and a.kind in ("using", "alias", "type"):
        return not a.detail or a.detail != b.detail  # the same alias may be declared twice
    if a.kind == b.kind == "function":
        return a.detail == b.detail
    return True


def names_of(path: pathlib.Path) -> list[Name]:
    text = path.read_text()
    code = blank(text)
    # Macros of headers are undefined by the tables they include.
    left = macros(text) if path.suffix == ".cpp" else ()
    return [*names_in(code, 0, len(code), "", False), *left]


def included(root: pathlib.Path, sources: list[pathlib.Path]) -> list[pathlib.Path]:
    """Headers of src that some of the sources include: a chunk may have all of them."""
    found = {name for path in sources for name in INCLUDE.findall(path.read_text())}
    return [root / "src" / name for name in sorted(found) if (root / "src" / name).is_file()]


def types_of(root: pathlib.Path) -> set[tuple[str, str]]:
    """Namespace and name of each type that a header of src defines."""
    headers = (root / "src").rglob("*.hpp")
    return {(n.scope, n.name) for path in headers for n in names_of(path) if n.kind == "type"}


def hides(using: Name, types: set[tuple[str, str]]) -> bool:
    """Whether there is a type of this name in an outer namespace, other than the used one."""
    outer = using.scope.split("::")[:-1]
    qualifier = using.detail.split()[-1].split("::")[-2]
    return any(
        ("::".join(outer[: k + 1]), using.name) in types and outer[k] != qualifier
        for k in range(len(outer))
    )


def hidden_types(
    root: pathlib.Path, library: str, paths: list[pathlib.Path], types: set[tuple[str, str]]
) -> Iterator[str]:
    """Uses of a type of an outer namespace where another source's using declaration hides it."""
    names = {path: names_of(path) for path in [*included(root, paths), *paths]}
    usings = [
        (path, name)
        for path in paths
        for name in names[path]
        if name.kind == "using" and hides(name, types)
    ]
    for path, own in names.items():
        code = blank(path.read_text())
        for source, using in usings:
            inside = any(name.scope == using.scope for name in own)
            if not inside or any((n.kind, n.name) == ("using", using.name) for n in own):
                continue
            use = rf"(?<![\w:.>])(?<!class )(?<!struct ){using.name}\b"
            if match := re.search(use, code):
                yield (
                    f"{path.relative_to(root).as_posix()}:{line_of(code, match.start())}: "
                    f"{using.name} is another type after `{using.detail}` in "
                    f"{source.relative_to(root).as_posix()}:{using.line}, which "
                    f"{library.split()[0]} compiles together with it: write its namespace"
                )


def check(root: pathlib.Path) -> list[str]:
    problems = []
    types = types_of(root)
    for library, paths in libraries(root).items():
        problems += dict.fromkeys(hidden_types(root, library, paths, types))
        seen: dict[tuple[str, str], list[tuple[str, Name]]] = defaultdict(list)
        for path in [*included(root, paths), *paths]:
            source = path.relative_to(root).as_posix()
            for name in names_of(path):
                for other, before in seen[name.scope, name.name]:
                    local = path.suffix == ".cpp" and (name.local or before.local)
                    if other != source and local and clash(name, before):
                        problems.append(
                            f"{source}:{name.line}: {name.kind} {name.name} is also in "
                            f"{other}:{before.line}, which {library.split()[0]} compiles "
                            "together with it: rename one"
                        )
                        break
                seen[name.scope, name.name].append((source, name))
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)  # fmt: skip
    problems = check(parser.parse_args().root.resolve())
    print("\n".join(problems) if problems else "unity: no name is declared twice within a library")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
