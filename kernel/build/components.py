#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Packs the modules of a kernel build into one file, with an index by names and aliases.

    kernel/build/components.py OBJDIR ARCHIVE

reads OBJDIR/modules.order, OBJDIR/Module.symvers and the .ko files. Each of these is compressed by
itself, so that the kernel decompresses what it loads. ARCHIVE is used as it is in
memory (hypercall/posix/component.c): all numbers are little-endian, offsets count from its start,
names end with NUL.

    header    magic[8], size u64, then number and offset (u32 each) of modules, aliases,
              orders, nodes
    modules   name u32, reserved u32, image u64, size u64
    aliases   name u32, first order u32, number of orders u32; sorted by name
    orders    module u32, with bit 31 set if it is what the alias means, not only needed by that
    nodes     name u32, is a block device u32, major u32, minor u32
"""

import argparse
import os
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MAGIC = b"obcomp\0\2"
HEADER = struct.Struct("<8sQ8I")
WANTED = 1 << 31
ALIGNMENT = 64
LEVEL = "-19"


def modinfo(image: bytes) -> list[tuple[str, str]]:
    """The KEY=VALUE strings in the section .modinfo of an ELF file."""
    sections, = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names = struct.unpack_from("<3H", image, 0x3A)
    headers = [struct.unpack_from("<2I4Q", image, sections + entry_size * index)
               for index in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, size in headers:
        start = strings + name
        if image[start:image.index(b"\0", start)] == b".modinfo":
            texts = image[offset:offset + size].decode().split("\0")
            return [tuple(text.split("=", 1)) for text in texts if "=" in text]
    raise ValueError("no section .modinfo")


def plain(name: str) -> str:
    """As Linux compares names of modules and aliases."""
    return name.replace("-", "_")


def compressed(path: Path) -> bytes:
    """The file as one zstd frame, which is kept beside it for the next time."""
    kept = path.with_suffix(".ko.zst")
    if not kept.exists() or kept.stat().st_mtime_ns < path.stat().st_mtime_ns:
        new = path.with_suffix(".ko.zst.new")
        subprocess.run(["zstd", "-q", "-f", LEVEL, path, "-o", new], check=True)
        new.replace(kept)
    return kept.read_bytes()


class Module:
    def __init__(self, path: Path):
        self.name = plain(path.stem)
        self.image = compressed(path)
        information = modinfo(path.read_bytes())
        self.aliases = {plain(value) for key, value in information if key == "alias"} | {self.name}
        self.nodes = [value for key, value in information if key == "alias"]
        needs = [value.split(",") for key, value in information if key == "depends"]
        before = [value.split(":", 1)[1].split() for key, value in information
                  if key == "softdep" and value.startswith("pre:")]
        self.needs = [plain(name) for names in needs + before for name in names if name]


def load(objects: Path) -> dict[str, Module]:
    paths = [(objects / line).with_suffix(".ko")
             for line in (objects / "modules.order").read_text().splitlines()]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        modules = {module.name: module for module in threads.map(Module, paths)}
    # Linux also asks for the module that exports a symbol. A kernel without modules has no such
    # list.
    exports = objects / "Module.symvers"
    for line in exports.read_text().splitlines() if modules else []:
        _, symbol, provider, *_ = line.split("\t")
        if (name := plain(Path(provider).name)) in modules:
            modules[name].aliases.add(f"symbol:{plain(symbol)}")
    return dict(sorted(modules.items()))


def providers(modules: dict[str, Module]) -> dict[str, list[str]]:
    """For each alias, the modules that have it. Patterns are for buses, which we do not have."""
    found: dict[str, list[str]] = {}
    for module in modules.values():
        for alias in module.aliases:
            if not re.search(r"[*?\[]", alias):
                found.setdefault(alias, []).append(module.name)
    return found


def order(wanted: list[str], modules: dict[str, Module],
          aliases: dict[str, list[str]]) -> list[str]:
    """What to load for some modules, in order: soft dependencies may be aliases."""
    result: list[str] = []
    visited = set()

    def visit(name: str) -> None:
        if name in visited:
            return
        visited.add(name)
        for need in modules[name].needs:
            for other in [need] if need in modules else aliases.get(need, []):
                visit(other)
        result.append(name)

    for name in wanted:
        visit(name)
    return result


def nodes(module: Module) -> list[tuple[str, int, int, int]]:
    """Device nodes: an alias devname:NAME, and one with the numbers."""
    names = [alias.removeprefix("devname:") for alias in module.nodes
             if alias.startswith("devname:")]
    numbers = [re.fullmatch(r"(char|block)-major-(\d+)-(\d+)", alias) for alias in module.nodes]
    known = [(int(match[1] == "block"), int(match[2]), int(match[3])) for match in numbers if match]
    return [(name, *known[0]) for name in names if known]


class Strings:
    def __init__(self, base: int):
        self.base, self.bytes, self.offsets = base, bytearray(), {}

    def add(self, text: str) -> int:
        if text not in self.offsets:
            self.offsets[text] = self.base + len(self.bytes)
            self.bytes += text.encode() + b"\0"
        return self.offsets[text]


def pack(modules: dict[str, Module]) -> bytes:
    aliases = providers(modules)
    index = {name: number for number, name in enumerate(modules)}
    order_table: list[int] = []
    alias_rows = []
    for alias in sorted(aliases, key=str.encode):
        names = order(aliases[alias], modules, aliases)
        alias_rows.append((alias, len(order_table), len(names)))
        order_table += [index[name] | (WANTED if name in aliases[alias] else 0) for name in names]
    node_rows = [row for module in modules.values() for row in nodes(module)]

    at = [HEADER.size]
    sizes = 24 * len(modules), 12 * len(alias_rows), 4 * len(order_table), 16 * len(node_rows)
    for size in sizes:
        at.append(at[-1] + size)
    strings = Strings(at[4])
    tables = bytearray()
    images = bytearray()
    rows = b"".join(struct.pack("<3I", strings.add(name), first, count)
                    for name, first, count in alias_rows)
    node_bytes = b"".join(struct.pack("<4I", strings.add(name), *numbers)
                          for name, *numbers in node_rows)
    for name in modules:
        strings.add(name)
    base = -(-(at[4] + len(strings.bytes)) // ALIGNMENT) * ALIGNMENT
    for name, module in modules.items():
        images += bytes(-len(images) % ALIGNMENT)
        tables += struct.pack("<2I2Q", strings.add(name), 0, base + len(images), len(module.image))
        images += module.image
    tables += rows + struct.pack(f"<{len(order_table)}I", *order_table) + node_bytes + strings.bytes
    tables += bytes(base - HEADER.size - len(tables))
    counts = (len(modules), len(alias_rows), len(order_table), len(node_rows))
    pairs = [number for pair in zip(counts, at) for number in pair]
    return HEADER.pack(MAGIC, base + len(images), *pairs) + bytes(tables) + bytes(images)


def main() -> int:
    description = "Packs the modules of a kernel build into one file."
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("objdir", type=Path, help="object directory of the kernel build")
    parser.add_argument("archive", type=Path)
    arguments = parser.parse_args()
    try:
        archive = pack(load(arguments.objdir))
    except (OSError, ValueError, struct.error, subprocess.SubprocessError) as error:
        print(f"components.py: {error}", file=sys.stderr)
        return 1
    if not arguments.archive.exists() or arguments.archive.read_bytes() != archive:
        arguments.archive.write_bytes(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
