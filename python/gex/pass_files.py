"""Loads passes from files and folders, and from those listed in GEX_PASS_PATH.

The files import `gex.passes` themselves; compiling needs only this module.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import traceback
from pathlib import Path


class PassLoadError(RuntimeError):
    """Lists every file that could not be loaded and why; passes of other files are available."""


_lock = threading.RLock()
_loaded: dict[Path, str] = {}  # its error, or ""


def _files_of(path: Path) -> list[Path]:
    """The file itself, or in a folder every module and package whose name does not begin with
    '_'."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    if path.is_file():
        if path.suffix != ".py":
            raise ValueError(f"{path}: the name of a pass file must end in .py")
        return [path]
    found = []
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("_"):
            continue
        if entry.is_dir() and (entry / "__init__.py").exists():
            found.append(entry / "__init__.py")
        elif entry.suffix == ".py":
            found.append(entry)
    return found


def _load_file(path: Path) -> str:
    """Runs the file; returns its error, or ""."""
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    name = f"gex_passes_{stem}_{len(_loaded)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        return f"{path}: Python can't load it"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # reported as the file's own error
        del sys.modules[name]
        words = traceback.format_exception_only(type(error), error)
        return f"{path}: {''.join(words).strip()}"
    return ""


def load(paths: str) -> None:
    """Loads pass files and folders, separated by ':'. Each file is loaded once.

    Raises PassLoadError after all of them were tried.
    """
    problems = []
    with _lock:
        for part in filter(None, paths.split(os.pathsep)):
            try:
                files = _files_of(Path(part).resolve())
            except (FileNotFoundError, ValueError) as error:
                problems.append(str(error))
                continue
            for path in files:
                if path not in _loaded:
                    _loaded[path] = _load_file(path)
                if _loaded[path]:
                    problems.append(_loaded[path])
    if problems:
        raise PassLoadError("passes could not be loaded:\n" + "\n".join(problems))


def load_environment() -> None:
    """Loads the passes listed in GEX_PASS_PATH; called before each compile."""
    paths = os.environ.get("GEX_PASS_PATH")
    if paths:
        load(paths)
