"""A hook of MkDocs: pages of the C and C++ interfaces, made of the public headers.

Each declaration is shown with its comment, without bodies of functions and private parts.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_ROOT = pathlib.Path(__file__).resolve().parent.parent

# The page, its title, and the headers below include/gex.
PAGES = {
    "c_reference.md": ("C reference", ["gex.h", "session.h", "kernel.h"]),
    "cpp_reference.md": (
        "C++ reference",
        [
            "session.hpp",
            "coroutine.hpp",
            "pass.hpp",
            "es/builder.hpp",
            "es/graph.hpp",
            "es/node.hpp",
            "es/tensor.hpp",
            "es/operators.hpp",
            "es/control.hpp",
            "es/like.hpp",
            "es/split.hpp",
            "es/attr.hpp",
            "es/custom_op.hpp",
            "es/holder.hpp",
        ],
    ),
}

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')"""
    r"""|(?P<line>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<mark>[{};])|(?P<other>[^"'/{};\#]+|.)""",
    re.S | re.M,
)
_TRANSPARENT = re.compile(r'^\s*(?:inline\s+)?(?:namespace\b[^;]*|extern\s+"C")\s*$')
_TYPE = re.compile(r"^\s*(?:template\s*<[^{]*>\s*)?(?:typedef\s+)?(?:class|struct|union|enum)\b")
_ACCESS = re.compile(r"^\s*(public|protected|private)\s*:", re.M)
_SECTION = re.compile(r"^/[*/]\s*-{3,}\s*(.*?)\s*-{3,}\s*(?:\*/)?$")


@dataclass
class Item:
    """A comment with what follows it; `section` begins a part of the header instead."""

    comment: str = ""
    code: str = ""
    section: str = ""


@dataclass
class _Reader:
    tokens: list[tuple[str, str]]
    at: int = 0
    items: list[Item] = field(default_factory=list)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def skip_body(self) -> str:
        """Up to the brace that closes the one that was taken; returns what is between."""
        depth, text = 1, ""
        while depth and self.peek()[0] != "end":
            kind, part = self.take()
            if kind == "mark":
                depth += {"{": 1, "}": -1}.get(part, 0)
            if depth:
                text += part
        return text

    def declarations(self) -> None:
        """Everything of a file or a namespace."""
        code, comments = "", []
        while self.peek()[0] != "end":
            kind, part = self.take()
            if kind == "comment":
                if part.startswith("// namespace"):
                    continue
                after = bool(self.items) and not code.strip() and not _starts_line(self, part)
                if after:  # behind a declaration
                    self.items[-1].code += "  " + part
                elif not code.strip():
                    code = ""
                    comments.append(part)
                else:
                    code += part
            elif kind == "line":
                if re.match(r"\s*#\s*define\s+\w+\s+\S", part):
                    self.items.append(Item("\n".join(comments), part.strip()))
                else:
                    self._add_prose(comments)
                comments = []
            elif (kind, part) == ("mark", "{") and _TRANSPARENT.match(code):
                if re.search(r"namespace\s+(?:\w+::)*detail\b", code):
                    self.skip_body()
                code, comments = "", []
            elif (kind, part) == ("mark", "{") and _is_value(code):
                code += f"{{{self.skip_body()}}}"
            elif (kind, part) == ("mark", "{"):
                code = self._with_body(code)
                if self.peek() == ("mark", ";"):
                    self.take()
                elif _TYPE.match(code):
                    continue  # `} name;`
                self._add(code, comments)
                code, comments = "", []
            elif (kind, part) == ("mark", ";"):
                self._add(code, comments)
                code, comments = "", []
            elif (kind, part) == ("mark", "}"):
                code, comments = "", []
            else:
                code += part
                if not code.strip() and code.count("\n") > 1 and comments:
                    self._add_prose(comments)
                    code, comments = "", []

    def _with_body(self, code: str) -> str:
        body = self.skip_body()
        if not _TYPE.match(code):
            return re.sub(r"\)\s*:\s.*", ")", code.rstrip(), flags=re.S)  # initialisers
        is_class = re.search(r"\bclass\b", code) is not None and "enum" not in code
        kept = body if re.search(r"\benum\b", code) else "\n".join(_members(body, is_class))
        return f"{code.rstrip()} {{\n{kept.strip(chr(10)).rstrip()}\n}}"

    def _add_prose(self, comments: list[str]) -> None:
        for comment in comments:
            section = _SECTION.match(comment)
            if section:
                self.items.append(Item(section=section[1]))
        prose = "\n".join(c for c in comments if not _SECTION.match(c))
        if prose.strip():
            self.items.append(Item(comment=prose))

    def _add(self, code: str, comments: list[str]) -> None:
        if not code.strip():
            return
        sections = [c for c in comments if _SECTION.match(c)]
        self._add_prose(sections)
        own = "\n".join(c for c in comments if c not in sections)
        self.items.append(Item(own, code.strip() + ";"))


def _is_value(code: str) -> bool:
    """Whether a brace behind this begins a value, not a body."""
    return code.count("(") > code.count(")") or code.rstrip().endswith(("=", ","))


def _starts_line(reader: _Reader, comment: str) -> bool:
    """Whether only spaces stand before the comment that was just taken."""
    before = reader.tokens[reader.at - 2][1] if reader.at > 1 else "\n"
    return "\n" in before[len(before.rstrip(" \t\n")) :] or before.endswith("\n")


def _members(body: str, private: bool) -> Iterator[str]:
    """What users of a class see."""
    parts = _ACCESS.split(body)
    visible = [] if private else [parts[0]]
    visible += [text for name, text in zip(parts[1::2], parts[2::2]) if name == "public"]
    for text in visible:
        yield _without_bodies(text)


def _without_bodies(text: str) -> str:
    reader, out, pending = _Reader(_tokens(text)), "", ""
    while reader.peek()[0] != "end":
        kind, part = reader.take()
        if (kind, part) == ("mark", "{") and _is_value(pending):
            pending += f"{{{reader.skip_body()}}}"
        elif (kind, part) == ("mark", "{"):
            shown = reader._with_body(pending)
            follows = reader.peek() == ("mark", ";")
            if follows:
                reader.take()
            out += shown + ";"
            pending = ""
        elif (kind, part) == ("mark", ";"):
            out += pending + ";"
            pending = ""
        elif kind == "comment":
            out += pending + part
            pending = ""
        elif kind != "line":
            pending += part
    return re.sub(r"\n\s*\n+", "\n", out + pending)


def _tokens(text: str) -> list[tuple[str, str]]:
    return [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(text)]


def _prose(comment: str) -> str:
    """Indented lines are code; other signs of Markdown have no meaning in comments."""
    text = re.sub(r"\s*\*+/\s*$|^\s*/\*+|^\s*//\s?|^\s*\*\s?", "", comment, flags=re.M)
    lines, in_list, in_code = [], False, False
    for line in text.splitlines():
        line = line[1:] if re.match(r" \S", line) else line
        was_in_list = in_list
        in_list = line.startswith("- ") or (in_list and line.startswith(" "))
        is_code = line.startswith("  ") and not in_list
        if is_code != in_code or in_list != was_in_list:
            lines.append("")
        in_code = is_code
        lines.append(f"    {line}" if is_code else line.replace("<", "&lt;").replace("*", r"\*"))
    return "\n".join(lines).strip("\n")


_NAME = re.compile(
    r"\b(?:class|struct|union|enum(?: class)?)\s+(?:GEX_\w+\s+)?(\w+)|(operator\s*\S+?|\w+)\s*\("
)


def _name(code: str) -> str:
    plain = re.sub(
        r"^\s*template\s*<.*?>\s*(?=\w)", "", re.sub(r"/\*.*?\*/|//[^\n]*", "", code, flags=re.S)
    )
    if plain.startswith(("typedef", "using")):
        found = re.findall(r"\w+", plain.partition("=")[0])
        return (
            found[-1]
            if plain.startswith("typedef") and found
            else (found[1] if len(found) > 1 else "")
        )
    if plain.startswith("#"):
        return plain.split()[1]
    match = _NAME.search(plain)
    return (match[1] or match[2] or "") if match else ""


def items_of(text: str) -> list[Item]:
    reader = _Reader(_tokens(text))
    reader.declarations()
    return reader.items


def page(title: str, headers: list[str]) -> str:
    lines = [f"# {title}", "", "Made from the headers when the site is built (`make site`).", ""]
    for header in headers:
        lines += [f"## gex/{header}", ""]
        for item in items_of((_ROOT / "include" / "gex" / header).read_text()):
            if item.section:
                lines += [f"### {item.section.capitalize()}", ""]
                continue
            name = _name(item.code) if item.code else ""
            if name:
                lines += [f"#### `{name}`", ""]
            if item.comment:
                lines += [_prose(item.comment), ""]
            if item.code:
                lines += ["```cpp", item.code, "```", ""]
    return "\n".join(lines)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, (title, headers) in PAGES.items():
        files.append(File.generated(config, name, content=page(title, headers)))
    return files
