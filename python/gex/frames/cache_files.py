"""Files of cache_compile: a record with a checksum, readable only by its owner."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import os
import pickle
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gex.cache.saved_graph import SavedGraph

VERSION = "1.2"
_MAGIC = b"GEXCACHE\n"


class BadCacheFile(Exception):
    """The file exists but can't be used; the message says why."""


@dataclass(frozen=True)
class Entry:
    """One traced variant of a function: Dynamo's frame, its guards, and its graph."""

    code: Any  # as compat.dynamo_frames.saved_code gives it
    guards: bytes
    backend_id: str  # the frame's name for the graph
    imports: dict[str, tuple[str, str]]  # module and path by name in the frame
    builtins: tuple[str, ...]  # the frame's names of the builtins dict
    sources: dict[str, str]  # digests of the files whose code was traced
    graph: SavedGraph
    inputs: tuple[str, ...]  # readable source of each argument of the graph
    objects: tuple[tuple[Any, str], ...] = ()  # sources of objects that were guarded by identity

    def key(self) -> tuple[bytes, str]:
        return self.guards, self.graph.graph


@dataclass
class Record:
    """Everything stored for one function."""

    name: str
    options: str
    key: str  # function, options and rank, as in the path
    version: str = VERSION
    date: str = field(default_factory=lambda: datetime.datetime.now().isoformat(timespec="seconds"))
    entries: list[Entry] = field(default_factory=list)


def read(path: Path, key: str | None = None) -> Record | None:
    """None if there is no such file; BadCacheFile if it can't be used or belongs to another key."""
    try:
        # O_NONBLOCK: opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise BadCacheFile(str(problem)) from problem
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise BadCacheFile("it is not a regular file")
        if info.st_uid != os.geteuid():
            raise BadCacheFile("it is owned by another user")
        if stat.S_IMODE(info.st_mode) != 0o600:
            raise BadCacheFile(f"its mode is {stat.S_IMODE(info.st_mode):o}, not 600")
        data = file.read()
    body = data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC):
        raise BadCacheFile("it is not a file of cache_compile")
    if hashlib.sha256(body).digest() != data[len(_MAGIC) : len(_MAGIC) + 32]:
        raise BadCacheFile("it is damaged or truncated")
    version, record = pickle.loads(body)
    if version != VERSION:
        raise BadCacheFile(f"it has format {version}, this gex reads {VERSION}")
    loaded = pickle.loads(record)
    if key is not None and loaded.key != key:
        raise BadCacheFile(f"it was made for {loaded.key}, not for {key}")
    return loaded


def write(path: Path, record: Record) -> None:
    body = pickle.dumps((record.version, pickle.dumps(record)))
    # A new file of mode 600 with a unique name.
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.writing.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks the file against other processes; creates its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = path.with_name(f"{path.name}.lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(lock, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{lock} is not a regular file")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
