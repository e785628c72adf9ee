# SPDX-License-Identifier: GPL-2.0-only
"""
Memory and types of the kernel.

The kernel is compiled without debug information. Its types come from outboard-types.o, which lies
beside this package and belongs to the same build.

Whatever is read may be broken. Every read that fails becomes a Problem, which says what could not
be read.
"""

import os
import struct

import gdb

TYPES_FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
                          "outboard-types.o")

LIST_LIMIT = 1 << 20  # a longer list is a ring that has lost its head
STRING_LIMIT = 256


class Problem(gdb.GdbError):
    """What the user is told; gdb shows it without a Python back-trace."""


def hexadecimal(address: int) -> str:
    return f"{address:#x}"


def read_bytes(address: int, size: int, what: str) -> bytes:
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except (gdb.error, OverflowError, ValueError):
        raise Problem(f"{what} at {hexadecimal(address)} cannot be read") from None


def read_word(address: int, what: str) -> int:
    return struct.unpack("<Q", read_bytes(address, 8, what))[0]


def read_string(address: int, what: str) -> str:
    """A C string; shown without what a terminal might act on."""
    text = b""
    while len(text) < STRING_LIMIT and b"\0" not in text:
        # Never beyond the page: the next one may not exist.
        size = min(32, 4096 - (address + len(text)) % 4096)
        text += read_bytes(address + len(text), size, what)
    return printable(text.split(b"\0")[0])


def printable(text: bytes) -> str:
    decoded = text.decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in decoded)


class Record:
    """One structure of the kernel's: its fields are read when they are asked for."""

    def __init__(self, type_name: str, address: int):
        self.type_name = type_name
        self.address = int(address)
        self.type = kernel_type(type_name)

    def value(self, path: str):
        """A field, or a field of a field: "thread.vcpu"."""
        try:
            value = gdb.Value(self.address).cast(self.type.pointer()).dereference()
            for name in path.split("."):
                value = value[name]
            value.fetch_lazy()
            return value
        except gdb.MemoryError:
            raise Problem(
                f"{self.type_name} at {hexadecimal(self.address)} cannot be read") from None
        except gdb.error as error:
            raise Problem(f"{self.type_name} has no {path}: {error}") from None

    def number(self, path: str) -> int:
        value = self.value(path)
        is_array = value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY
        return int(value.address) if is_array else int(value)

    def text(self, path: str) -> str:
        value = self.value(path)
        return printable(
            bytes(int(value[i]) & 0xff for i in range(value.type.range()[1] + 1)).split(b"\0")[0])

    def has(self, name: str) -> bool:
        return any(field.name == name for field in self.type.fields())


def offset_of(type_name: str, field: str) -> int:
    for candidate in kernel_type(type_name).fields():
        if candidate.name == field:
            return candidate.bitpos // 8
    raise Problem(f"{type_name} has no {field}: {TYPES_FILE} is of another build")


def walk_list(head: int, what: str):
    """Addresses of the entries of a struct list_head."""
    entry = read_word(head, what)
    for _ in range(LIST_LIMIT):
        if entry == head:
            return
        following = read_word(entry, f"{what}: an entry")
        yield entry
        entry = following
    raise Problem(f"{what} does not end")


class Types:
    """The kernel's types, from their own file: other libraries may have types of the same names."""

    def __init__(self):
        self.objfile, self.known = None, {}

    def load(self) -> None:
        if self.objfile is not None and self.objfile.is_valid():
            return
        self.objfile, self.known = self.find() or self.add(), {}

    def find(self):
        return next((objfile for objfile in gdb.objfiles()
                     if objfile.is_valid() and objfile.filename == TYPES_FILE), None)

    def add(self):
        if not os.path.exists(TYPES_FILE):
            raise Problem(f"{TYPES_FILE} is missing: it is made by 'make' and belongs there")
        try:
            gdb.execute(f"with confirm off -- add-symbol-file '{TYPES_FILE}' 0", to_string=True)
        except gdb.error as error:
            raise Problem(f"{TYPES_FILE} cannot be used: {error}") from None
        objfile = self.find()
        if objfile is None:
            raise Problem(f"{TYPES_FILE} cannot be used")
        return objfile

    def get(self, name: str) -> gdb.Type:
        """"struct task_struct", "enum ob_pending"."""
        self.load()
        if name not in self.known:
            found = self.objfile.lookup_static_symbol(name.split()[1], gdb.SYMBOL_STRUCT_DOMAIN)
            if found is None:
                raise Problem(f"{TYPES_FILE} does not know {name}: it is of another build")
            self.known[name] = found.type
        return self.known[name]


TYPES = Types()
kernel_type = TYPES.get


def location(address: int) -> str:
    """The function that a return address belongs to, and where it stands if that is known."""
    text = gdb.execute(f"info symbol {address - 1:#x}", to_string=True)
    if text.startswith("No symbol"):
        return "?? ()"
    name, _, rest = text.partition(" ")
    place = gdb.find_pc_line(address - 1)
    if place.symtab:
        return f"{name} () at {place.symtab.filename}:{place.line}"
    source = rest.partition(" of ")[2].strip()
    return f"{name} ()" + (f" from {source}" if source else "")
