# SPDX-License-Identifier: GPL-2.0-only
"""Programs at work on `outboard mount`: compilers, databases, archivers, and random operations
against a model.
"""

import contextlib
import errno
import mmap
import os
import random
import sqlite3
import subprocess
import sys
import threading

import pytest

from support import direct_io, host, mounts
from support.direct_io import PAGE
from support.mounts import check, mounted

pytestmark = mounts.MARKS


class Model:
    """A file as bytes, and what may be done to both."""

    LARGEST = 300_000

    def __init__(self, path, seed):
        self.path, self.bytes, self.random = path, bytearray(), random.Random(seed)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def span(self):
        offset = self.random.randrange(self.LARGEST)
        return offset, self.random.randint(1, min(60_000, self.LARGEST - offset))

    def grow(self, size):
        self.bytes.extend(b"\0" * (size - len(self.bytes)))

    def write(self):
        offset, length = self.span()
        data = self.random.randbytes(length)
        assert os.pwrite(self.file, data, offset) == length
        self.grow(offset + length)
        self.bytes[offset:offset + length] = data

    def read(self):
        offset, length = self.span()
        assert os.pread(self.file, length, offset) == self.bytes[offset:offset + length]

    def page_span(self):
        offset, length = self.span()
        return offset // PAGE * PAGE, (length + PAGE - 1) // PAGE * PAGE

    def write_directly(self):
        offset, length = self.page_span()
        data = self.random.randbytes(length)
        if self.random.randrange(2) or offset:
            direct_io.write(self.path, data, offset)
        else:
            direct_io.write_asynchronously(self.path, data, PAGE)
        self.grow(offset + length)
        self.bytes[offset:offset + length] = data

    def read_directly(self):
        offset, length = self.page_span()
        assert direct_io.read(self.path, length, offset) == self.bytes[offset:offset + length]

    def truncate(self):
        size = self.random.randrange(self.LARGEST)
        os.ftruncate(self.file, size)
        del self.bytes[size:]
        self.grow(size)

    def map(self):
        if self.bytes:
            offset = self.random.randrange(len(self.bytes))
            data = self.random.randbytes(self.random.randint(1, len(self.bytes) - offset))
            with mmap.mmap(self.file, len(self.bytes)) as view:
                assert view[:] == self.bytes
                view[offset:offset + len(data)] = data
            self.bytes[offset:offset + len(data)] = data

    def fallocate(self):
        offset, length = self.span()
        mode = self.random.choice(["--punch-hole", "--zero-range", "--keep-size"])
        done = host.run("fallocate", mode, "--offset", offset, "--length",
                        length, self.path, ok=None)
        if done.returncode == 0 and mode != "--keep-size":
            if mode == "--zero-range":
                self.grow(offset + length)
            end = min(offset + length, len(self.bytes))
            if offset < end:
                self.bytes[offset:end] = b"\0" * (end - offset)

    def copy(self):
        offset, length = self.span()
        to = self.random.randrange(self.LARGEST)
        length = min(length, max(0, len(self.bytes) - offset), abs(offset - to))
        if length:
            copied = os.copy_file_range(self.file, self.file, length, offset, to)
            self.grow(to + copied)
            self.bytes[to:to + copied] = self.bytes[offset:offset + copied]

    def seek(self):
        """All bytes outside of data are zero."""
        position = 0
        while position < len(self.bytes):
            try:
                data = os.lseek(self.file, position, os.SEEK_DATA)
            except OSError as error:
                assert error.errno == errno.ENXIO
                data = len(self.bytes)
            assert not any(self.bytes[position:data])
            position = os.lseek(self.file, data, os.SEEK_HOLE) if data < len(self.bytes) else data

    def reopen(self):
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR | self.random.choice([0, os.O_SYNC]))

    def sync(self):
        os.fsync(self.file)

    def step(self):
        work = self.random.choice([self.write] * 4 + [self.read] * 4 + [
            self.write_directly, self.read_directly, self.truncate, self.map,
            self.fallocate, self.copy, self.seek, self.reopen, self.sync])
        work()
        assert os.fstat(self.file).st_size == len(self.bytes), work.__name__


def test_random_operations(image, kind):
    """Several files at a time against a model; the same again after the image was mounted anew."""
    with mounted(image) as directory:
        models = [Model(f"{directory}/file{number}", number) for number in range(4)]

        def work(model):
            for _ in range(250):
                model.step()

        failures = []
        threads = [threading.Thread(target=lambda model=model: guarded(work, model, failures))
                   for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for model in models:
            os.close(model.file)
        assert not failures, failures[0]
    check(image, kind)
    with mounted(image, "-o", "ro") as directory:
        for number, model in enumerate(models):
            with open(f"{directory}/file{number}", "rb") as stream:
                assert stream.read() == model.bytes


def guarded(work, argument, failures):
    try:
        work(argument)
    except BaseException as error:  # of a thread: told by the one that waits
        failures.append(repr(error))


@pytest.mark.needs("git", "gcc", "make")
def test_a_project_is_cloned_and_built(work, place):
    source = f"{work}/project"
    os.mkdir(source)
    for number in range(30):
        with open(f"{source}/part{number}.c", "w", encoding="ascii") as stream:
            stream.write(f"int part{number}(void) {{ return {number}; }}\n")
    with open(f"{source}/main.c", "w", encoding="ascii") as stream:
        stream.write("#include <stdio.h>\nint part7(void);\n"
                     "int main(void) { printf(\"%d\\n\", part7()); return 0; }\n")
    with open(f"{source}/Makefile", "w", encoding="ascii") as stream:
        stream.write("OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\nprogram: $(OBJECTS)\n"
                     "\tgcc -o $@ $(OBJECTS)\n")
    git = ("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "safe.directory=*")
    host.run(*git, "init", "-q", source)
    host.run(*git, "-C", source, "add", ".")
    host.run(*git, "-C", source, "commit", "-q", "-m", "all")
    host.run(*git, "clone", "-q", source, f"{place}/clone")
    host.run("make", "-s", "-j4", "-C", f"{place}/clone")
    assert host.run(f"{place}/clone/program").stdout == "7\n"
    assert not host.run(*git, "-C", f"{place}/clone", "fsck").stderr
    host.run(*git, "-C", f"{place}/clone", "gc", "-q")


def test_databases(place):
    """Two writers and the journal modes of sqlite, with its own check at the end."""
    for mode in ("DELETE", "WAL"):
        path = f"{place}/{mode}.db"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA journal_mode={mode}")
            database.execute("CREATE TABLE t (writer, number, text)")
        script = ("import sqlite3,sys\nd=sqlite3.connect(sys.argv[1],timeout=100)\n"
                  "for n in range(60):\n  with d: d.execute('INSERT INTO t VALUES "
                  "(?,?,?)',(sys.argv[2],n,'x'*n*20))")
        writers = [subprocess.Popen([sys.executable, "-c", script, path, str(number)])
                   for number in range(2)]
        assert [writer.wait() for writer in writers] == [0, 0]
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert database.execute("SELECT count(*) FROM t").fetchone() == (120,)


@pytest.mark.needs("fio")
def test_fio_verifies(work, place):
    for engine, direct in (("psync", 0), ("psync", 1), ("mmap", 0)):
        host.run("fio", "--name=v", f"--directory={place}", "--rw=randwrite",
                 "--bs=4k-64k", "--size=16m", "--numjobs=2", f"--ioengine={engine}",
                 f"--direct={direct}", "--verify=crc32c", "--do_verify=1",
                 "--verify_fatal=1", "--randrepeat=1", "--blockalign=4k", cwd=work)


def test_a_tree_comes_back(work, place):
    """tar in and out, with everything; compared by tar."""
    host.run("tar", "--acls", "--xattrs", "-C", "/usr/share", "-cf", f"{work}/t.tar", "zoneinfo")
    host.run("tar", "--acls", "--xattrs", "-C", place, "-xpf", f"{work}/t.tar")
    assert not host.run("tar", "--acls", "--xattrs", "-C", place, "-df", f"{work}/t.tar").stdout
