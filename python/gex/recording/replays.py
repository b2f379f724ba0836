"""Replays of a recording, and their updates.

On an npu a replay waits for its update, so programs issue it before, during or after the replay.
Here an update after a replay undoes it and runs it again, unless a tensor was changed in between:
then the update applies to the next replay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.recording import updates
from gex.recording.recorder import Recording


class Replays:
    def __init__(self, recording: Recording, run: Callable[..., Any]) -> None:
        self._recording = recording
        self._run = run
        self._lock = threading.Lock()
        self._is_updated = False
        self._undo: _Undo | None = None

    def replay(self) -> None:
        with self._lock:
            may_be_updated_late = bool(self._recording.updatable) and not self._is_updated
            self._is_updated = False
            self._undo = _Undo(self._recording) if may_be_updated_late else None
            self._replay()
            if self._undo is not None:
                self._undo.note_versions()

    def update(self, given: Any) -> None:
        self._assign(lambda: updates.assign(self._recording.updatable, given))

    def update_calls(self, changes: Sequence[updates.Change]) -> None:
        self._assign(lambda: updates.apply(changes))

    def _assign(self, assign: Callable[[], None]) -> None:
        with self._lock:
            assign()
            undo, self._undo = self._undo, None
            self._is_updated = undo is None or not undo.is_possible()
            if undo is not None and not self._is_updated:
                undo.restore()
                self._replay()

    def _replay(self) -> None:
        with torch.no_grad():
            self._run(*self._recording.inputs)


class _Undo:
    """The contents of the tensors that a recording writes, and the generator state, before a
    replay."""

    def __init__(self, recording: Recording) -> None:
        self._before = [(whole, whole.clone()) for whole in recording.written]
        self._random = torch.default_generator.get_state()
        self._inputs = recording.inputs
        self._versions: list[int] = []

    def note_versions(self) -> None:
        self._versions = _versions(self._inputs)

    def is_possible(self) -> bool:
        return self._versions == _versions(self._inputs)

    def restore(self) -> None:
        with torch.no_grad():
            for whole, contents in self._before:
                whole.copy_(contents)
        torch.default_generator.set_state(self._random)


def _versions(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor._version for tensor in tensors if not tensor.is_inference()]
