# SPDX-License-Identifier: GPL-2.0-only
"""
Reads and writes of all sizes in one file: every outcome as text.

Run with a directory; prints JSON, case to outcome. Two file systems behave alike if they print the
same. The cases cross the limits from which transfers go past a page cache: some have memory of
which only the beginning is there, some mix descriptors, appends and a mapping of the file. Not
among them: writes of less than 64 KB from memory that is there in part, of which FUSE writes less
than it could (fuse_fill_write_pages in Linux's fs/fuse/file.c), as POSIX allows.
"""

import errno
import hashlib
import json
import mmap
import os
import random
import sys

SIZES = (1, 4096, 65535, 65536, 65537, 1048577)
PRESENT = (0, 1, 4096, 65536, 100000, 1048576)
ALIGNMENTS = (0, 1, 4095)
STEPS = 200
LONGEST = 3 << 20
LARGE = 65536


def outcome(work):
    try:
        return work()
    except OSError as error:
        return errno.errorcode[error.errno]


def contents(path):
    with open(path, "rb") as stream:
        data = stream.read()
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def pattern(count, seed):
    return random.Random(seed).randbytes(count)


def partial_memory(length, present):
    """Memory whose pages behind `present` bytes are missing: those of a file that was cut."""
    with open("memory", "w+b") as stream:
        stream.write(pattern(length, length))
        stream.flush()
        memory = mmap.mmap(stream.fileno(), length)
        os.ftruncate(stream.fileno(), present)
    return memoryview(memory)


def written(size, present, alignment, flags):
    part = partial_memory(alignment + size, present)[alignment:]
    descriptor = os.open("file", os.O_RDWR | os.O_CREAT | os.O_TRUNC | flags)
    os.write(descriptor, pattern(2000, 1))
    count = outcome(lambda: os.writev(descriptor, [part]))
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.close(descriptor)
    return [count, place, contents("file")]


def read(size, present, alignment, flags):
    part = partial_memory(alignment + size, present)[alignment:]
    with open("file", "wb") as stream:
        stream.write(pattern(700000, 2))
    descriptor = os.open("file", os.O_RDONLY | flags)
    count = outcome(lambda: os.readv(descriptor, [part]))
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.close(descriptor)
    return [count, place, contents("memory")]


def partial_cases():
    return {
        f"{work.__name__} {size}, {present} present, at {alignment}, {label}":
            work(size, present, alignment, flags)
        for work, label, flags in ((written, "plain", 0), (written, "append", os.O_APPEND),
                                   (read, "plain", 0))
        for size in SIZES
        for present in PRESENT
        for alignment in ALIGNMENTS
        if work is read or size >= LARGE or present == 0 or present >= alignment + size
    }


class Mixed:
    """Steps by chance on one file, over two descriptors and a mapping, with a log of outcomes."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        with open("mixed", "wb") as stream:
            stream.write(bytes(LONGEST))
        self.descriptors = [os.open("mixed", os.O_RDWR), os.open("mixed", os.O_RDWR)]
        self.mapping = mmap.mmap(self.descriptors[0], LONGEST)
        self.log = hashlib.sha256()

    def place(self):
        size = self.chance.choice(SIZES) + self.chance.choice((0, 0, 3, 5000))
        place = self.chance.randrange(LONGEST - size)
        return (place & ~4095 if self.chance.random() < 0.5 else place), size

    def step(self):
        place, size = self.place()
        descriptor = self.chance.choice(self.descriptors)
        data = self.chance.randbytes(size)
        kind = self.chance.choice(("write", "read", "store", "load", "sync"))
        if kind == "write":
            self.note(os.pwrite(descriptor, data, place))
        elif kind == "read":
            self.note(os.pread(descriptor, size, place))
        elif kind == "store":
            self.mapping[place:place + size] = data
        elif kind == "load":
            self.note(self.mapping[place:place + size])
        else:
            os.fsync(descriptor)

    def note(self, thing):
        self.log.update(thing if isinstance(thing, bytes) else str(thing).encode())

    def run(self):
        for _ in range(STEPS):
            self.step()
        self.mapping.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        return [self.log.hexdigest()[:16], contents("mixed")]


def main():
    os.chdir(sys.argv[1])
    cases = partial_cases() | {f"mixed {seed}": Mixed(seed).run() for seed in range(4)}
    json.dump(cases, sys.stdout)


main()
