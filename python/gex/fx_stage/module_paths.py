"""Paths of modules in locations: "model.py:12 in forward of encoder.layer.0"."""

from __future__ import annotations

from dataclasses import dataclass

_OF = " of "


def module_of(location: str) -> str:
    """ "encoder.layer.0"; may be empty."""
    return location.rpartition(_OF)[2] if _OF in location else ""


def moved_path(path: str, old: str, new: str) -> str:
    """The path with module `new` in place of `old`, if it is that module or inside of it."""
    inside = path == old or path.startswith((f"{old}.", f"{old}["))
    return new + path[len(old) :] if inside else path


@dataclass(frozen=True)
class ModuleMove:
    """A body that is traced for module `old` is called for module `new`."""

    old: str
    new: str

    def location(self, location: str) -> str:
        before, of, path = location.rpartition(_OF)
        return (
            f"{before}{of}{moved_path(path, self.old, self.new)}" if of and self.old else location
        )
