# SPDX-License-Identifier: GPL-2.0-only
"""One range of a file on `outboard mount`, accessed by the page cache, directly and by a mapping:
everybody reads what was written last.
"""

import contextlib
import errno
import mmap
import multiprocessing
import os
import random

import pytest

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
    processes = [FORK.Process(target=read_in_a_loop, args=(path, ready, stop), daemon=True)
                 for ready in started]
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
            old = [index for index in range(0, len(data), PAGE)
                   if found[index:index + PAGE] != data[:PAGE]]
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
    """Each turn: reads what the other process has left, and writes a range, both in some way.
    `content`: what all must read.
    """
    chance = random.Random(seed)
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), SIZE,
                                               prot=mmap.PROT_READ) as lasting:
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
    processes = [
        FORK.Process(target=take_turns, args=(path, seed, 60, content, own, other), daemon=True)
                 for seed, own, other in ((1, first, second), (2, second, first))]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]


def parts(file):
    """The data of a file, as programs find it that copy no holes."""
    found, offset = [], 0
    while True:
        try:
            start = os.lseek(file, offset, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return found
        offset = os.lseek(file, start, os.SEEK_HOLE)
        found.append((start, offset))


@pytest.mark.parametrize("write", [by_cache, by_mapping, directly],
                         ids=lambda write: write.__name__)
def test_data_are_found_wherever_they_were_written(place, write):
    """In holes between data, before and behind them; pages of holes were read before."""
    path, block = f"{place}/file", 16 * PAGE
    with open(path, "wb") as stream:
        stream.truncate(SIZE)
    data, expected = b"x" * block, []
    with open(path, "r+b", buffering=0) as stream:
        for offset in (2 * block, 0, 3 * block, block):
            assert read_by_cache(path)[offset:offset + block] == bytes(block)
            write(path, offset, data)
            expected.append((offset, offset + block))
            if write is by_cache:
                os.pwrite(stream.fileno(), data, offset)
            joined = set().union(*(range(*part) for part in expected))
            found = set().union(*(range(*part) for part in parts(stream.fileno())))
            assert found == joined
            assert os.lseek(stream.fileno(), offset, os.SEEK_DATA) == offset
        # Behind the end that the image knows.
        if write is by_cache:
            os.pwrite(stream.fileno(), data, SIZE + block)
            assert os.lseek(stream.fileno(), SIZE, os.SEEK_DATA) == SIZE + block
            assert os.lseek(stream.fileno(), SIZE + block, os.SEEK_HOLE) == SIZE + 2 * block


def test_dirty_pages_of_a_mapping_are_found(place):
    """Nobody has synced the mapping, and the server has had no request for the pages."""
    path, block = f"{place}/file", 16 * PAGE
    with open(path, "wb") as stream:
        stream.truncate(SIZE)
    with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), SIZE) as view:
        for offset in (2 * block, 0):
            assert view[offset:offset + block] == bytes(block)
            view[offset:offset + block] = b"x" * block
            assert os.lseek(stream.fileno(), 0, os.SEEK_DATA) == offset
            assert os.lseek(stream.fileno(), offset, os.SEEK_HOLE) == offset + block
        assert parts(stream.fileno()) == [(0, block), (2 * block, 3 * block)]


def test_looking_for_data_drops_no_pages_of_data(place):
    path = f"{place}/file"
    with open(path, "wb") as stream:
        stream.write(b"x" * SIZE)
        stream.truncate(2 * SIZE)
    with (open(path, "r+b", buffering=0) as stream,
          direct_io.kept_in_memory(stream.fileno(), SIZE) as count):
        os.fsync(stream.fileno())
        assert count() == SIZE // PAGE
        for offset in range(0, SIZE, PAGE):
            assert os.lseek(stream.fileno(), offset, os.SEEK_DATA) == offset
            assert os.lseek(stream.fileno(), offset, os.SEEK_HOLE) == SIZE
        assert count() == SIZE // PAGE
