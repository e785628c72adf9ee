# SPDX-License-Identifier: GPL-2.0-only
"""Direct reads and writes from Python, synchronous and by Linux AIO, and what the page cache has.
"""

import contextlib
import ctypes
import mmap
import os
import struct

PAGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
# System calls of x86-64.
IO_SETUP, IO_DESTROY, IO_GETEVENTS, IO_SUBMIT = 206, 207, 208, 209
PWRITE = 1


def system_call(*arguments):
    result = LIBC.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def aligned(data):
    """A buffer for direct I/O with these bytes."""
    buffer = mmap.mmap(-1, max(len(data), 1))
    buffer[:len(data)] = data
    return buffer


def write(path, data, offset, flags=0):
    """A synchronous direct write. Offset and length are multiples of a page."""
    with aligned(data) as buffer:
        file = os.open(path, os.O_WRONLY | os.O_DIRECT | flags)
        try:
            assert os.pwritev(file, [buffer], offset) == len(data)
        finally:
            os.close(file)


def read(path, length, offset):
    with aligned(bytes(length)) as buffer:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            return buffer[:os.preadv(file, [buffer], offset)]
        finally:
            os.close(file)


def write_asynchronously(path, data, piece):
    """Writes a file from its start, in pieces that are under way at the same time."""
    context = ctypes.c_ulong(0)
    count = len(data) // piece
    system_call(IO_SETUP, count, ctypes.byref(context))
    file = os.open(path, os.O_WRONLY | os.O_DIRECT)
    buffer = aligned(data)
    view = ctypes.c_char.from_buffer(buffer)
    try:
        address = ctypes.addressof(view)
        blocks = [
            ctypes.create_string_buffer(
                struct.pack("<QIiHhIQQqQII", number, 0, 0, PWRITE, 0, file,
                            address + number * piece, piece, number * piece, 0, 0, 0))
            for number in range(count)
        ]
        pointers = (ctypes.c_void_p * count)(*map(ctypes.addressof, blocks))
        submitted = 0
        while submitted < count:
            rest = ctypes.c_void_p(
                ctypes.addressof(pointers) + submitted * ctypes.sizeof(ctypes.c_void_p))
            submitted += system_call(IO_SUBMIT, context, count - submitted, rest)
        events = ctypes.create_string_buffer(32 * count)
        assert system_call(IO_GETEVENTS, context, count, count, events, None) == count
        for number in range(count):
            assert struct.unpack_from("<q", events, 32 * number + 16) == (piece,)
    finally:
        system_call(IO_DESTROY, context)
        os.close(file)
        del view
        buffer.close()


@contextlib.contextmanager
def kept_in_memory(file, length):
    """
    Brings pages of a file into the page cache, which drops them only where it must. Yields a
    function: how many there are.
    """
    with mmap.mmap(file, length) as view:
        first = ctypes.c_char.from_buffer(view)
        try:
            start, size = ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length)
            assert LIBC.mlock(start, size) == 0, os.strerror(ctypes.get_errno())

            def count():
                states = (ctypes.c_ubyte * (length // PAGE))()
                assert LIBC.mincore(start, size, states) == 0, os.strerror(ctypes.get_errno())
                return sum(state & 1 for state in states)

            yield count
        finally:
            del first
