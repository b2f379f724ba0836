"""The C interface of model files (gex/session.h), through ctypes."""

from __future__ import annotations

import ctypes as c
import functools
from typing import Any

from gex import _gex

OK = 0


class CTensor(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("dtype", c.c_int32),
        ("data", c.c_void_p),
        ("rank", c.c_size_t),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("owner", c.c_void_p),
    ]


class CTensorInfo(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("dtype", c.c_int32),
        ("name", c.c_char_p),
        ("type", c.c_char_p),
        ("rank", c.c_size_t),
        ("shape", c.POINTER(c.c_int64)),
        ("sizes", c.POINTER(c.c_char_p)),
    ]


class CLoadOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("trust", c.c_int32),
        ("check_weights", c.c_int32),
        ("autotune", c.c_int32),
        ("level", c.c_char_p),
        ("model", c.c_char_p),
        ("key", c.c_char_p),
        ("key_size", c.c_size_t),
    ]


class CSessionOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("threads", c.c_int32),
        ("capture_limit", c.c_int32),
        ("async_limit", c.c_int32),
        ("static_code", c.c_int32),
        ("reserved", c.c_int32),
        ("allocator", c.c_void_p),
        ("thread_pool", c.c_void_p),
    ]


class CRunOptions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("cancel", c.c_void_p),
        ("timeout_nanoseconds", c.c_int64),
    ]


RUN_CALLBACK = c.CFUNCTYPE(None, c.c_void_p, c.c_int32, c.c_char_p)

_ARGUMENTS: dict[str, list[Any]] = {
    "gex_model_load": [c.c_char_p, c.POINTER(CLoadOptions), c.POINTER(c.c_void_p)],
    "gex_model_load_memory": [
        c.c_void_p,
        c.c_size_t,
        c.POINTER(CLoadOptions),
        c.POINTER(c.c_void_p),
    ],
    "gex_model_input_count": [c.c_void_p, c.POINTER(c.c_size_t)],
    "gex_model_output_count": [c.c_void_p, c.POINTER(c.c_size_t)],
    "gex_model_input": [c.c_void_p, c.c_size_t, c.POINTER(CTensorInfo)],
    "gex_model_output": [c.c_void_p, c.c_size_t, c.POINTER(CTensorInfo)],
    "gex_model_name": [c.c_void_p, c.POINTER(c.c_void_p)],
    "gex_model_code": [c.c_void_p, c.POINTER(c.c_void_p)],
    "gex_session_create": [c.c_void_p, c.POINTER(CSessionOptions), c.POINTER(c.c_void_p)],
    "gex_program_run_with": [
        c.c_void_p,
        c.POINTER(CTensor),
        c.c_size_t,
        c.POINTER(CTensor),
        c.c_size_t,
        c.POINTER(CRunOptions),
    ],
    "gex_program_run_async_with": [
        c.c_void_p,
        c.POINTER(CTensor),
        c.c_size_t,
        c.POINTER(CTensor),
        c.c_size_t,
        c.POINTER(CRunOptions),
        RUN_CALLBACK,
        c.c_void_p,
    ],
    "gex_load_kernels": [c.c_char_p],
    "gex_cancel_create": [c.POINTER(c.c_void_p)],
    "gex_cancel_request": [c.c_void_p],
}
_RELEASES: dict[str, list[Any]] = {
    "gex_model_destroy": [c.c_void_p],
    "gex_program_destroy": [c.c_void_p],
    "gex_cancel_destroy": [c.c_void_p],
    "gex_tensor_release": [c.POINTER(CTensor)],
    "gex_text_free": [c.c_void_p],
}


@functools.cache
def library() -> c.CDLL:
    """libgex, which the extension is linked with: its functions are found through it."""
    lib = c.CDLL(_gex.__file__)
    for name, arguments in _ARGUMENTS.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = c.c_int32
    for name, arguments in _RELEASES.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = None
    lib.gex_last_error.restype = c.c_char_p
    lib.gex_status_name.argtypes = [c.c_int32]
    lib.gex_status_name.restype = c.c_char_p
    return lib


class RunError(_gex.UserError):
    """A failed call of a model file. `status` is its kind: "shape_mismatch", "busy"..."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status: str = library().gex_status_name(status).decode()


def check(status: int) -> None:
    if status != OK:
        raise RunError(status, library().gex_last_error().decode(errors="replace"))


def text_from(function: Any, handle: c.c_void_p) -> str:
    place = c.c_void_p()
    check(function(handle, c.byref(place)))
    try:
        return (c.cast(place, c.c_char_p).value or b"").decode()
    finally:
        library().gex_text_free(place)
