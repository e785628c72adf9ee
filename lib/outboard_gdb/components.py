# SPDX-License-Identifier: GPL-2.0-only
"""Loaded components, and how gdb is told of them."""

import contextlib
import os
import re
import struct
import tempfile

import gdb

from outboard_gdb.instances import Instance, instances
from outboard_gdb.memory import (LIST_LIMIT, STRING_LIMIT, Problem, Record, hexadecimal,
                                 kernel_type, offset_of, read_bytes, read_string, read_word,
                                 walk_list)

NAME = re.compile(r"[\w-]+")


class Module(Record):
    """A component that is loaded."""

    TEXT, INIT_TEXT = 0, 4

    def __init__(self, address: int):
        super().__init__("struct module", address)
        self.name = self.text("name")
        if not NAME.fullmatch(self.name):
            raise Problem(f"the list of modules is damaged at {hexadecimal(self.address)}")
        self.regions = self.memory()

    def memory(self) -> list:
        """(type, base, size) of each part."""
        parts = self.value("mem")
        return [(i, int(parts[i]["base"]), int(parts[i]["size"]))
                for i in range(parts.type.range()[1] + 1)
                if int(parts[i]["base"]) and int(parts[i]["size"])]

    def key(self) -> tuple:
        """What tells it from another, and from itself loaded again."""
        return self.address, self.name, *(base
                                          for kind, base, _ in self.regions if kind == self.TEXT)

    def size(self) -> int:
        return sum(size for _, _, size in self.regions)

    def contains(self, address: int) -> bool:
        return any(base <= address < base + size for _, base, size in self.regions)

    def state(self) -> str:
        return str(self.value("state")).replace("MODULE_STATE_", "").lower()

    def sections(self) -> dict:
        """Addresses by name. The kernel keeps them for /sys/module/NAME/sections."""
        if not self.has("sect_attrs") or not self.number("sect_attrs"):
            return {}
        # Its layout is private to a file of the kernel's: an attribute group, whose attributes are
        # each followed by the address.
        group = Record("struct attribute_group", self.number("sect_attrs"))
        entry = group.number("bin_attrs")
        size = kernel_type("struct bin_attribute").sizeof
        found = {}
        for _ in range(STRING_LIMIT):
            attribute = read_word(entry, f"the sections of {self.name}")
            if not attribute:
                break
            name = read_string(
                Record("struct bin_attribute", attribute).number("attr.name"), "a section's name")
            address = read_word(attribute + size, f"the sections of {self.name}")
            if self.contains(address):
                found[name] = address
            entry += 8
        return found

    def functions(self):
        """(name, address, size) of what the kernel keeps for its own back-traces."""
        if not self.has("kallsyms") or not self.number("kallsyms"):
            return
        table = Record("struct mod_kallsyms", self.number("kallsyms"))
        count = table.number("num_symtab")
        if count > LIST_LIMIT:
            raise Problem(f"the symbols of {self.name} are damaged")
        raw = read_bytes(table.number("symtab"), count * 24, f"the symbols of {self.name}")
        strings = table.number("strtab")
        for name, kind, _, section, value, size in struct.iter_unpack("<IBBHQQ", raw):
            if name and section and kind & 15 in (0, 2):
                yield read_string(strings + name, "a symbol's name"), value, size

    def unwinding(self):
        """(address, bytes) of the section .eh_frame, relocated as the loader left it. None if there
        is none.
        """
        address = self.sections().get(".eh_frame")
        if address is None:
            return None
        _, base, size = next(region for region in self.regions
                             if region[1] <= address < region[1] + region[2])
        raw = read_bytes(address, base + size - address, f"the unwinding tables of {self.name}")
        end = 0
        # Records with their lengths; what follows them is not ours.
        while end + 8 <= len(raw):
            length = struct.unpack_from("<I", raw, end)[0]
            if not 8 <= length <= len(raw) - end - 4 or length % 4:
                break
            end += 4 + length
        return address, raw[:end] + bytes(4)


def modules(instance: Instance):
    head = instance.symbol("modules")
    if head is None:
        return
    shift = offset_of("struct module", "list")
    for entry in walk_list(head, "the list of modules"):
        yield Module(entry - shift)


class SymbolFiles:
    """
    What gdb is told of loaded components: for each an ELF file with the names that the kernel keeps
    for its own back-traces, and with the unwinding tables as they are in memory. So gdb's own
    commands work in components too.
    """

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="outboard-gdb-")
        self.told = {}  # path by Module.key()

    def update(self) -> None:
        present = {}
        for instance in instances():
            with contextlib.suppress(Problem):
                for module in modules(instance):
                    present[module.key()] = module
        for key in [key for key in self.told if key not in present]:
            self.forget(key)
        for key, module in present.items():
            if key not in self.told:
                with contextlib.suppress(Problem):
                    self.tell(key, module)

    def forget(self, key) -> None:
        path = self.told.pop(key)
        with contextlib.suppress(gdb.error):
            gdb.execute(f"with confirm off -- remove-symbol-file '{path}'", to_string=True)

    def tell(self, key, module: Module) -> None:
        path = os.path.join(self.place_of(module), module.name)
        with open(path, "wb") as stream:
            stream.write(module_image(module))
        self.told[key] = path
        gdb.execute(f"with confirm off -- add-symbol-file '{path}'", to_string=True)

    def place_of(self, module: Module) -> str:
        """Several kernels may have loaded components of the same name."""
        path = os.path.join(self.directory.name, f"{module.address:x}")
        os.makedirs(path, exist_ok=True)
        return path

    def read_file(self, module: Module, path: str, sections: str) -> None:
        """The component's own file takes the place of what the kernel knows."""
        for key in [key for key in self.told if key[0] == module.address]:
            self.forget(key)
        # As long as gdb has it, it must not change: compilers write where they wrote before.
        copy = os.path.join(self.place_of(module), module.name + ".ko")
        with open(copy, "wb") as stream:
            stream.write(without_addresses(path))
        gdb.execute(f"with confirm off -- add-symbol-file '{copy}' {sections}", to_string=True)
        self.told[module.key()] = copy


def without_addresses(path: str) -> bytes:
    """A relocatable file in which all sections are at 0. Linkers leave other values there, which
    gdb takes seriously.
    """
    try:
        with open(path, "rb") as stream:
            image = bytearray(stream.read())
        if image[:6] != b"\x7fELF\2\1":
            raise Problem(f"{path} is not an ELF file of 64 bits")
        (table,) = struct.unpack_from("<Q", image, 40)
        size, count = struct.unpack_from("<HH", image, 58)
        for i in range(count):
            struct.pack_into("<Q", image, table + i * size + 16, 0)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except struct.error:
        raise Problem(f"{path} is cut off") from None
    return bytes(image)


SYMBOL_FILES = SymbolFiles()


def module_image(module: Module) -> bytes:
    """An executable without code: sections at their addresses in memory, symbols, unwinding tables.
    """
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    code = [(base, size) for kind, base, size in module.regions
            if kind in (Module.TEXT, Module.INIT_TEXT)]
    symbols = bytearray(24)
    for name, value, size in module.functions():
        section = next(
            (i + 1 for i, (base, length) in enumerate(code) if base <= value < base + length), 0)
        if section:
            symbols += struct.pack("<IBBHQQ", string(name), 0x12, 0, section, value,
                                   size)  # a global function
    # name, type, flags, address, content (None: not in the file), its size, link, size of an entry
    sections = [("", 0, 0, 0, b"", 0, 0, 0)]
    sections += [(".text" if i == 0 else f".text.{i}", 8, 6, base, None, size, 0, 0)
                 for i, (base, size) in enumerate(code)]
    frames = module.unwinding()
    if frames:
        sections.append((".eh_frame", 1, 2, frames[0], frames[1], len(frames[1]), 0, 0))
    sections.append((".symtab", 2, 0, 0, bytes(symbols), len(symbols), len(sections) + 1, 24))
    sections.append((".strtab", 3, 0, 0, strings, 0, 0, 0))
    names = [string(section[0]) for section in sections]
    headers, body = b"", b""
    for name, (_, kind, flags, address, content, size, link, entry) in zip(names, sections):
        size = len(content) if content is not None else size
        headers += struct.pack("<IIQQQQIIQQ", name, kind, flags, address, 64 + len(body), size,
                               link, 1 if kind == 2 else 0, 8, entry)
        body += bytes(content or b"") + bytes(-len(content or b"") % 8)
    return struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 0, 64 + len(body), 0, 64,
                       0, 0, 64, len(sections),
                       len(sections) - 1) + body + headers
