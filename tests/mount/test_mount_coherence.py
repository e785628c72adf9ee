# SPDX-License-Identifier: GPL-2.0-only
"""One range of a file on `outboard mount`, accessed by the page cache, directly and by a mapping: everybody reads what was written last."""

import contextlib
import mmap
import multiprocessing
import os
import random

from support import direct_io, mounts
from support.direct_io import PAGE

pytestmark = mounts.MARKS
FORK = multiprocessing.get_context("fork")


def read_in_a_loop(path, ready, stop):
    with open(path, "rb", buffering=0) as stream:
        while not stop.is_set():
            os.pread(stream.fileno(), 1 << 20, 0)
            ready.set()


@contextlib.contextmanager
def readers(path, count):
    """Processes that read a file by the page cache, over and over."""
    stop = FORK.Event()
    started = [FORK.Event() for _ in range(count)]
    processes = [FORK.Process(target=read_in_a_loop, args=(path, ready, stop), daemon=True) for ready in started]
    for process in processes:
        process.start()
    try:
        for ready in started:
            assert ready.wait(120)
        yield
    finally:
        stop.set()
        for process in processes:
            process.join(120)
    assert [process.exitcode for process in processes] == [0] * count


def test_asynchronous_direct_writes_leave_no_old_pages(place):
    path, piece, pieces = f"{place}/file", 16 * PAGE, 10
    with open(path, "wb") as stream:
        stream.write(bytes(piece * pieces))
    with readers(path, 2), open(path, "rb", buffering=0) as cached:
        for number in range(1, 151):
            data = bytes([number]) * (piece * pieces)
            direct_io.write_asynchronously(path, data, piece)
            found = os.pread(cached.fileno(), len(data), 0)
            old = [index for index in range(0, len(data), PAGE) if found[index:index + PAGE] != data[:PAGE]]
            assert not old, f"write {number}: {len(old)} of {len(data) // PAGE} pages are old"
    assert direct_io.read(path, len(data), 0) == data


SIZE = 64 * PAGE


def by_cache(path, offset, data):
    with open(path, "r+b", buffering=0) as stream:
        os.pwrite(stream.fileno(), data, offset)


def by_mapping(path, offset, data):
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), SIZE) as view:
        view[offset:offset + len(data)] = data


def directly(path, offset, data):
    direct_io.write(path, data, offset)


def asynchronously(path, _, data):
    """All of the file."""
    direct_io.write_asynchronously(path, data, 8 * PAGE)


def read_by_cache(path):
    with open(path, "rb", buffering=0) as stream:
        return os.pread(stream.fileno(), SIZE, 0)


def read_by_mapping(path):
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), SIZE, prot=mmap.PROT_READ) as view:
        return view[:]


def read_directly(path):
    return direct_io.read(path, SIZE, 0)


def take_turns(path, seed, turns, content, own, other):
    """Each turn: reads what the other process has left, and writes a range, both in some way. `content`: what all must read."""
    chance = random.Random(seed)
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), SIZE, prot=mmap.PROT_READ) as lasting:
        for _ in range(turns):
            assert own.acquire(timeout=120)
            for read in chance.sample([read_by_cache, read_by_mapping, read_directly], 3):
                assert read(path) == content[:], read.__name__
            assert lasting[:] == content[:], "by a mapping that lasts"
            write = chance.choice([by_cache, by_mapping, directly, asynchronously])
            offset = chance.randrange(SIZE)
            length = chance.randint(1, SIZE - offset)
            if write is directly:
                offset = offset // PAGE * PAGE
                length = chance.randint(1, (SIZE - offset) // PAGE) * PAGE
            elif write is asynchronously:
                offset, length = 0, SIZE
            data = chance.randbytes(length)
            write(path, offset, data)
            content[offset:offset + length] = data
            other.release()


def test_two_processes_read_what_was_written_last(place):
    path = f"{place}/file"
    with open(path, "wb") as stream:
        stream.write(bytes(SIZE))
    content = mmap.mmap(-1, SIZE)
    first, second = FORK.Semaphore(1), FORK.Semaphore(0)
    processes = [FORK.Process(target=take_turns, args=(path, seed, 60, content, own, other), daemon=True)
                 for seed, own, other in ((1, first, second), (2, second, first))]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]
