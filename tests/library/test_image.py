# SPDX-License-Identifier: GPL-2.0-only
"""The kernel image: files that are refused, how it lies in memory, and another place for it."""

import os
import re
import shutil
import struct
import subprocess

import pytest
from test_capi import LIBRARIES, library_program, run

IMAGE = os.path.join(LIBRARIES, "outboard-kernel")
SCRIPT = os.path.join(LIBRARIES, "outboard-gdb.py")

# Offsets in the structures of ELF: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
HEADER = struct.Struct("<16s2HI3QI6H")
SEGMENT = struct.Struct("<2I6Q")
RELOCATION = struct.Struct("<2Qq")
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS, PT_GNU_STACK = 1, 2, 4, 7, 0x6474e551
DT_RELA, DT_RELASZ = 7, 8
R_X86_64_RELATIVE = 8
# Of outboard/tables.h: OB_INTERFACE_VERSION, and the types of notes.
INTERFACE = 3
NOTE_INTERFACE, NOTE_THREAD_BLOCK = 1, 2


class Image:
    """The bytes of an image, to be damaged. Its first instruction is one that ends the program."""

    def __init__(self):
        with open(IMAGE, "rb") as stream:
            self.bytes = bytearray(stream.read())
        header = HEADER.unpack_from(self.bytes)
        self.entry, self.table, self.count = header[4], header[5], header[10]
        self.put(self.offset_of(self.entry), b"\x0f\x0b")

    def put(self, offset, what):
        self.bytes[offset:offset + len(what)] = what

    def segment(self, kind, writable=None):
        """Where the row of a segment is, and the row."""
        for i in range(self.count):
            where = self.table + i * SEGMENT.size
            row = SEGMENT.unpack_from(self.bytes, where)
            if row[0] == kind and writable in (None, bool(row[1] & 2)):
                return where, row
        raise AssertionError(f"no such segment: {kind}")

    def offset_of(self, address):
        for i in range(self.count):
            kind, _, offset, start, _, size, _, _ = SEGMENT.unpack_from(
                self.bytes, self.table + i * SEGMENT.size)
            if kind == PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise AssertionError(f"no segment has {address:#x}")

    def rela(self):
        """
        Gives the image a relocation with an addend, as the only one: the linker may need none. It
        is in its code, where nothing runs. Returns where the relocation is.
        """
        _, row = self.segment(PT_DYNAMIC)
        _, data = self.segment(PT_LOAD, writable=True)
        table = self.entry + 64
        for offset in range(row[2], row[2] + row[5], 16):
            tag, _ = struct.unpack_from("<2Q", self.bytes, offset)
            if tag in (DT_RELA, DT_RELASZ):
                value = table if tag == DT_RELA else RELOCATION.size
                self.put(offset + 8, struct.pack("<Q", value))
        self.put(self.offset_of(table), RELOCATION.pack(data[3], R_X86_64_RELATIVE, 0))
        return self.offset_of(table)


def preferred_address():
    return f"{Image().segment(PT_LOAD)[1][3]:x}"


def start(tester, *arguments, libraries=LIBRARIES):
    return run(tester, preferred_address(), *arguments, LD_LIBRARY_PATH=libraries)


def damage(number):
    """Sets bytes of the ELF header."""
    return lambda image: image.put(*number)


def set_note(kind, value):
    """Sets the number in a note of Outboard's."""
    start = struct.pack("<3I", len("Outboard") + 1, 4, kind) + b"Outboard\0\0\0\0"

    def change(image):
        note = image.bytes.index(start, image.segment(PT_NOTE)[1][2])
        image.put(note + len(start), struct.pack("<I", value))

    return change


def set_segment(kind, field, value, **which):
    """Sets a 64-bit field of a segment's row, at that offset in the row."""
    row = struct.pack("<Q", value)
    return lambda image: image.put(image.segment(kind, **which)[0] + field, row)


def set_type(kind, value):
    return lambda image: image.put(image.segment(kind)[0], struct.pack("<I", value))


def set_flags(kind, flags, **which):
    return lambda image: image.put(image.segment(kind, **which)[0] + 4, struct.pack("<I", flags))


def no_tables(image):
    """Its entry point is: xor %eax,%eax; ret."""
    image.put(image.offset_of(image.entry), b"\x31\xc0\xc3")


def small_tables(image):
    """Its entry point is: lea 57(%rip),%rax; ret. There is a table that has its size only."""
    image.put(image.offset_of(image.entry), b"\x48\x8d\x05" + struct.pack("<i", 64 - 7) + b"\xc3")
    image.put(image.offset_of(image.entry + 64), struct.pack("<II", 8, INTERFACE))


def says_why(image):
    """Its entry point is: lea 57(%rip),%rax; mov %rax,(%rcx); xor %eax,%eax; ret."""
    image.put(image.offset_of(image.entry),
              b"\x48\x8d\x05" + struct.pack("<i", 64 - 7) + b"\x48\x89\x01\x31\xc0\xc3")
    image.put(image.offset_of(image.entry + 64), b"the host lacks a moon\0")


def relocation_in_text(image):
    image.put(image.rela(), struct.pack("<Q", image.entry))


def relocation_type(image):
    image.put(image.rela() + 8, struct.pack("<Q", 7))


def overlap(image):
    """The data are where the text is."""
    where, row = image.segment(PT_LOAD, writable=True)
    image.put(where + 16, struct.pack("<Q", image.entry & ~4095 | row[3] & 4095))


def truncated(image):
    del image.bytes[len(image.bytes) // 2:]


def linked_to_0(image):
    base = int(preferred_address(), 16)
    for number in range(image.count):
        where = image.table + number * SEGMENT.size
        row = SEGMENT.unpack_from(image.bytes, where)
        image.put(where + 16, struct.pack("<Q", max(row[3] - base, 0)))


DAMAGED = {
    "cut": (truncated, "truncated"),
    "empty": (lambda image: image.bytes.clear(), "not a regular file, or empty"),
    "text": (lambda image: image.put(0, b"#!/bin/sh"), "not an ELF file"),
    "short": (lambda image: image.bytes.__delitem__(slice(40, None)), "not an ELF file"),
    "arm": (damage((18, b"\xb7\0")), "not for x86-64 (its ELF machine is 183)"),
    "32-bit": (damage((4, b"\1")), "not a 64-bit little-endian ELF file"),
    "big-endian": (damage((5, b"\2")), "not a 64-bit little-endian ELF file"),
    "fixed": (damage((16, b"\2\0")), "not a position-independent ELF file"),
    "table": (damage((32, b"\xff" * 8)), "its table of segments is damaged"),
    "entry": (damage((24, b"\0" * 8)), "its entry point is not in its code"),
    "interface": (set_note(NOTE_INTERFACE, 4711),
                  f"its interface has version 4711, this library's has version {INTERFACE}: use "),
    "large": (set_segment(PT_LOAD, 40, 1 << 40, writable=True), "impossible addresses"),
    "overlap": (overlap, "its segments overlap"),
    "flags": (set_flags(PT_LOAD, 7, writable=True), "a segment is writable and executable"),
    "threads": (set_type(PT_GNU_STACK, PT_TLS), "has thread-local storage of its own"),
    "dynamic": (set_segment(PT_DYNAMIC, 16, 8), "its dynamic section is missing or damaged"),
    "in-text": (relocation_in_text, "a relocation is not in its data"),
    "null": (linked_to_0, "it is linked to the address 0"),
    "tables": (no_tables, "its tables do not fit"),
    "thread block": (set_note(NOTE_THREAD_BLOCK, 65),
                     "it uses 65 bytes of each thread's block, and this host has 64 bytes"),
    "reason": (says_why, "the host lacks a moon"),
    "small tables": (small_tables, "its tables do not fit"),
    "type": (relocation_type, "relocations of the unknown type 7"),
}


@pytest.fixture(name="tester", scope="module")
def fixture_tester(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("image")), "image_test.c", "client.c")


def test_refused_images(work, tester):
    """Each is refused with its reason, most before their code runs; then a good one boots."""
    files, reasons = [], []
    for name, (change, reason) in DAMAGED.items():
        image = Image()
        change(image)
        files.append(os.path.join(work, name))
        reasons.append(reason)
        with open(files[-1], "wb") as stream:
            stream.write(image.bytes)
    for path, reason in (("/nowhere/kernel", "No such file"), (work, "not a regular file"),
                         ("/bin/true", "a program or a library of the host"),
                         (os.path.join(LIBRARIES, "liboutboard.so.0"), "")):
        files.append(path)
        reasons.append(reason)
    said = start(tester, "refused", IMAGE, *files).splitlines()
    assert len(said) == len(files)
    for path, reason, line in zip(files, reasons, said):
        assert f"the kernel image {path} cannot be loaded: " in line and reason in line


def test_refused_after_preparation(work, tester):
    image, path = Image(), os.path.join(work, "kernel")
    no_tables(image)
    with open(path, "wb") as stream:
        stream.write(image.bytes)
    assert "its tables do not fit" in start(tester, "prepared", path)


@pytest.mark.needs("unshare")
@pytest.mark.needs_root
def test_image_without_execution(tester):
    """Of a file system that is mounted noexec."""
    script = (f'mount -t tmpfs -o noexec none /mnt && cp "{IMAGE}" /mnt/kernel && '
              f'exec "{tester}" {preferred_address()} prepared /mnt/kernel')
    said = run("unshare", "--mount", "sh", "-c", script, LD_LIBRARY_PATH=LIBRARIES)
    assert "the kernel image /mnt/kernel cannot be loaded: Operation not permitted" in said


def test_text_is_the_librarys_file(tester):
    """So its pages are shared by all processes."""
    library = os.path.realpath(os.path.join(LIBRARIES, "liboutboard.so.0"))
    start(tester, "own", library)


def test_text_is_the_programs_file(work):
    program = library_program(work, "image_test.c", "client.c", static=True)
    start(program, "own", os.path.realpath(program))


def test_library_that_was_removed(work, tester):
    """As a package update does it while the program runs."""
    shutil.copy(os.path.join(LIBRARIES, "liboutboard.so.0"), work)
    copy = os.path.realpath(os.path.join(work, "liboutboard.so.0"))
    start(tester, "unlinked", copy, libraries=work)


def test_moved(tester):
    start(tester, "moved", "xfs")


@pytest.mark.needs("gdb")
def test_gdb_finds_the_moved_image(tester):
    commands = ("source " + SCRIPT, "break image_has_moved", "run", "outboard-backtrace 2")
    words = ["gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no"]
    for command in commands:
        words += ["-ex", command]
    done = subprocess.run([*words, "--args", tester, preferred_address(), "moved", "xfs"],
                          capture_output=True, text=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "DEBUGINFOD_URLS": ""})
    functions = re.findall(r"^#\d+ .* in (\w+) \(", done.stdout, flags=re.M)
    assert functions.index("schedule") < functions.index("kthreadd"), done.stdout + done.stderr


def addresses(path):
    """The addresses of a file's functions and of the image in it, by nm."""
    rows = (line.split() for line in run("nm", path).splitlines())
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


def test_profilers_find_names_in_the_library():
    """perf looks for a name at the place in the file that was mapped."""
    image, own = Image(), addresses(IMAGE)
    library = addresses(os.path.join(LIBRARIES, "liboutboard.so.0"))
    for name in ("vfs_read", "schedule", "sys_getppid"):
        assert library[f"{name}.linux"] - library["ob_own_image"] == image.offset_of(own[name])
