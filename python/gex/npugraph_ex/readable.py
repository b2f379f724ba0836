"""inference.readable_cache: a readable description of a cache_compile file."""

from __future__ import annotations

import dis
import io
import os
import stat
from pathlib import Path

from gex.frames import cache_files


def readable_cache(cache_bin: str, print_output: bool = True, file: str | None = None) -> str:
    """Metadata, signature and rewritten frame of each entry; `file` receives that as comments
    and the graphs as Python code."""
    path = Path(cache_bin)
    if path.is_symlink() or not path.is_file():
        raise ValueError(
            f"cache_bin {cache_bin!r} is not a file of cache_compile: it must be a "
            "regular file, not a symbolic link"
        )
    try:
        record = cache_files.read(path)
    except cache_files.BadCacheFile as problem:
        raise ValueError(f"cache_bin {cache_bin!r}: {problem}") from problem
    assert record is not None, "it was there"
    text = _text_of(record)
    if file is not None:
        _write(Path(file), text, record)
    if print_output:
        print(text)
    return text


def _text_of(record: cache_files.Record) -> str:
    from gex.compat.dynamo_frames import restored_code

    out = io.StringIO()
    print(f"name: {record.name}\ndate: {record.date}\nversion: {record.version}", file=out)
    print(f"options: {record.options or 'none'}\nentries: {len(record.entries)}", file=out)
    for number, entry in enumerate(record.entries):
        print(f"\nentry {number}\ninputs: {', '.join(entry.inputs)}", file=out)
        print(f"graph:\n{entry.graph.graph}\nframe:", file=out)
        dis.dis(restored_code(entry.code), file=out)
    return out.getvalue()


def _write(path: Path, text: str, record: cache_files.Record) -> None:
    if path.is_symlink():
        raise ValueError(f"file {str(path)!r} is a symbolic link: choose a regular file")
    if path.exists():
        info = path.stat()
        if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) != 0o600:
            raise PermissionError(f"file {str(path)!r} exists and is not private to you (mode 600)")
    path.parent.mkdir(parents=True, exist_ok=True)
    comments = "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
    code = "from gex import Graph\n\nGRAPHS = [\n"
    code += "".join(f"    Graph.parse({entry.graph.graph!r}),\n" for entry in record.entries)
    code += "]\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(comments + "\n" + code)
