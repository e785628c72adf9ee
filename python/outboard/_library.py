# SPDX-License-Identifier: GPL-2.0-only
"""liboutboard.so.0 by ctypes: finds it, and declares the functions that this package calls."""

import ctypes
import functools
import os

LIBRARY = "liboutboard.so.0"
# Overrides where the library is.
VARIABLE = "OUTBOARD_LIBRARY"


class Config(ctypes.Structure):
    """struct ob_config of <outboard/outboard.h>."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("vcpus", ctypes.c_uint),
        ("memory", ctypes.c_uint64),
        ("command_line", ctypes.c_char_p),
        ("log_level", ctypes.c_int),
        ("log", ctypes.c_void_p),
        ("log_context", ctypes.c_void_p),
        ("components", ctypes.c_char_p),
        ("snapshots", ctypes.c_char_p),
        ("panic", ctypes.c_void_p),
        ("panic_context", ctypes.c_void_p),
        ("kernel", ctypes.c_char_p),
        ("flags", ctypes.c_uint32),
        ("spare_interfaces", ctypes.c_uint32),
    ]


# Function: result, arguments. Handles of instances are void pointers.
HANDLE = ctypes.c_void_p
FUNCTIONS = {
    "ob_instance_new": (ctypes.c_int, [ctypes.POINTER(HANDLE)]),
    "ob_instance_free": (ctypes.c_int, [HANDLE]),
    "ob_boot_on": (ctypes.c_int, [HANDLE, ctypes.POINTER(Config)]),
    "ob_boot_error_on": (ctypes.c_char_p, [HANDLE]),
    "ob_halt_on": (ctypes.c_int, [HANDLE]),
    "ob_component_error": (ctypes.c_char_p, []),
    "ob_net_add_on": (ctypes.c_int, [HANDLE, ctypes.c_char_p, ctypes.c_char_p]),
    "ob_net_configure_on": (ctypes.c_int, [HANDLE, ctypes.c_char_p, ctypes.c_char_p]),
    "ob_net_remove_on": (ctypes.c_int, [HANDLE, ctypes.c_int]),
    "ob_net_error": (ctypes.c_char_p, []),
    # The number, and six arguments: the C function takes what the call has.
    "ob_syscall_on": (ctypes.c_long, [HANDLE, *[ctypes.c_long] * 7]),
}


def path_of_library() -> str:
    """Of the file that the variable names, else beside the package, else for the linker to find."""
    here = os.path.dirname(os.path.abspath(__file__))
    parent = os.path.dirname(here)
    # `make install` has lib/python3/dist-packages/outboard, the source tree python/outboard.
    installed = os.path.basename(parent) == "dist-packages"
    beside = os.path.join(parent, "..", "..", LIBRARY) if installed else os.path.join(
        parent, "..", "out", "lib", LIBRARY)
    return os.environ.get(VARIABLE) or (beside if os.path.exists(beside) else LIBRARY)


@functools.cache
def load() -> ctypes.CDLL:
    """The library. Its functions run without the interpreter's lock."""
    path = path_of_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}; set {VARIABLE} to its path") from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
