# SPDX-License-Identifier: GPL-2.0-only
"""
The kernels of a process: one command looks at one of them, which choose() determines.

The library shows each kernel image to debuggers as an ELF file in memory (lib/debugger.c), whose
sections have the addresses of the image. Symbols are read from there: gdb's own look-up by name
finds the first of several kernels only.
"""

import contextlib
import struct

import gdb

from outboard_gdb.memory import TYPES_FILE, Problem, Record, read_bytes, read_word

IMAGES_LIMIT = 1 << 12  # a longer list is a ring that has lost its end
SECTION_SIZE, SYMBOL_SIZE = 64, 24
SHT_SYMTAB = 2
ET_REL = 1
SHN_LORESERVE = 0xff00
FRAMES_LIMIT = 64


class Image:
    """A kernel image that is loaded."""

    def __init__(self, file: int, kind: int, sections: bytes):
        self.file, self.addresses = file, {}
        self.is_relocatable = kind == ET_REL
        self.sections = list(struct.iter_unpack("<IIQQQQIIQQ", sections))
        table = next((section for section in self.sections if section[1] == SHT_SYMTAB), None)
        if table is None:
            raise Problem(f"the kernel image at {file:#x} has no symbols")
        self.symbols = self.content(table, "the symbol table")
        self.strings = self.content(self.sections[table[6]], "the names of symbols")

    def content(self, section: tuple, what: str) -> bytes:
        return read_bytes(self.file + section[4], section[5], what)

    def symbol(self, name: str):
        """The address of a variable or function, None if there is none."""
        if name not in self.addresses:
            self.addresses[name] = self.find(name)
        return self.addresses[name]

    def find(self, name: str):
        text, places, start = name.encode() + b"\0", set(), -1
        while (start := self.strings.find(text, start + 1)) >= 0:
            places.add(start)
        symbols = struct.iter_unpack("<IBBHQQ", self.symbols)
        return next((value + self.start_of(section) for string, _, _, section, value, _ in symbols
                     if string in places and section), None)

    def start_of(self, section: int) -> int:
        """What symbols of a section count from."""
        counts = self.is_relocatable and section < SHN_LORESERVE
        return self.sections[section][3] if counts else 0


# Image by address and table of sections of its file; None for a file that is no kernel's.
IMAGES = {}


def image_at(file: int):
    header = read_bytes(file, 64, "a file that is shown to debuggers")
    kind, = struct.unpack_from("<H", header, 16)
    table, = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<HH", header, 58)
    if header[:4] != b"\x7fELF" or size != SECTION_SIZE:
        return None
    sections = read_bytes(file + table, size * count, "the table of sections of a kernel image")
    if (file, sections) not in IMAGES:
        found = None
        with contextlib.suppress(Problem):
            found = Image(file, kind, sections)
        IMAGES[file, sections] = found if found and found.symbol("ob_machine") else None
    return IMAGES[file, sections]


def shown_by(descriptor: int) -> list:
    """Images in the list of files that a library shows to gdb."""
    entry, found = read_word(descriptor + 16, "the list of kernel images"), []
    for _ in range(IMAGES_LIMIT):
        if not entry:
            return found
        links = read_bytes(entry, 24, "the list of kernel images")
        entry, _, file = struct.unpack("<QQQ", links)
        # The data of another library may be gone.
        with contextlib.suppress(Problem):
            image = image_at(file)
            if image:
                found.append(image)
    raise Problem("the list of kernel images does not end")


def descriptors() -> list:
    """Another library of the program may have one, too."""
    text = gdb.execute("info variables ^__jit_debug_descriptor$", to_string=True)
    return [int(line.split()[0], 16) for line in text.splitlines() if line.startswith("0x")]


def first_descriptor() -> list:
    try:
        return [int(gdb.parse_and_eval("(unsigned long)&__jit_debug_descriptor"))]
    except gdb.error:
        return []


def images() -> list:
    def shown(places):
        return [image for place in places for image in shown_by(place)]
    return shown(first_descriptor()) or shown(descriptors())


class Instance:
    """A kernel that has booted."""

    def __init__(self, image: Image):
        self.image = image
        self.number = read_word(self.need("ob_boot"), "ob_boot") & 0xffffffff
        self.machine = Record("struct ob_machine", self.need("ob_machine"))

    def symbol(self, name: str):
        return self.image.symbol(name)

    def need(self, name: str) -> int:
        address = self.symbol(name)
        if address is None:
            raise Problem(f"the kernel's {name} is not in the symbol table")
        return address

    def has_code(self, address: int) -> bool:
        """Whether the address is in code of this kernel, or of one of its components."""
        layout = Record("struct ob_layout", self.need("ob_layout"))
        return (self.need("_text") <= address < self.need("_etext")
                or layout.number("modules") <= address < layout.number("modules_end"))

    def state(self) -> str:
        names = {"panicking": "panicked", "halting": "halting", "ready": "running"}
        for field, name in names.items():
            if self.machine.number(field):
                return name
        return "booting"

    def check_types(self) -> None:
        swapper = Record("struct task_struct", self.need("init_task")).text("comm")
        if not swapper.startswith("swapper"):
            raise Problem(f"{TYPES_FILE} is of another build than the kernel: "
                          f"the first task's name reads {swapper!r}")


def instances() -> list:
    """All of the process, in the order of their boots."""
    inferior = gdb.selected_inferior()
    if not inferior.is_valid() or not inferior.threads():
        raise Problem("there is no process: start the program, attach to one (gdb -p), or open a "
                      "core dump (gdb PROGRAM CORE)")
    found = [Instance(image) for image in images()]
    booted = (instance for instance in found if instance.machine.number("booted"))
    return sorted(booted, key=lambda instance: instance.number)


def has_library() -> bool:
    try:
        return bool(gdb.parse_and_eval("(unsigned long)&ob_boot_on"))
    except gdb.error:
        return False


class Choice(gdb.Parameter):
    """The instance that Outboard's commands look at: its number in outboard-instances. 0: the one
whose code the selected thread runs, or else the one that was booted first."""

    set_doc = "Set the instance that Outboard's commands look at, 0 for automatic."
    show_doc = "Show the instance that Outboard's commands look at."

    def __init__(self):
        super().__init__("outboard-instance", gdb.COMMAND_STATUS, gdb.PARAM_ZUINTEGER)
        self.value = 0

    def get_show_string(self, value):
        which = f"instance {value}" if self.value else \
            "the instance whose code the selected thread runs, or at the first"
        return f"Outboard's commands look at {which}."


CHOICE = Choice()


def of_thread(all_of_them: list):
    """The instance whose code the selected thread runs, None if it runs none."""
    with contextlib.suppress(gdb.error):
        frame = gdb.newest_frame()
        for _ in range(FRAMES_LIMIT):
            if frame is None:
                break
            pc = frame.pc()
            for instance in all_of_them:
                if instance.has_code(pc):
                    return instance
            frame = frame.older()
    return None


CHOSEN = []  # the instance of the command that runs


def choose(is_of_one: bool) -> tuple:
    """
    Determines the instance of the command that begins. Returns that instance, and all. A command
    that looks at all kernels goes on if the chosen one has ended: it gets None.
    """
    CHOSEN.clear()
    found = instances()
    if not found and (images() or has_library()):
        raise Problem("no kernel has been booted in this process yet")
    if not found:
        raise Problem("no kernel of Outboard here: the program has not loaded the library yet, or "
                      "the symbols were stripped from the library (see docs/debugging.md)")
    if CHOICE.value:
        chosen = next((instance for instance in found if instance.number == CHOICE.value), None)
        if chosen is None and is_of_one:
            raise Problem(f"there is no instance {CHOICE.value}: see outboard-instances")
    else:
        chosen = (of_thread(found) if len(found) > 1 else None) or found[0]
    if chosen:
        chosen.check_types()
        CHOSEN.append(chosen)
    return chosen, found


def chosen() -> Instance:
    return CHOSEN[0]


def symbol(name: str) -> int:
    """The address of a variable of the chosen kernel."""
    return chosen().need(name)


def machine() -> Record:
    return chosen().machine
