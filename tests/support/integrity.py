# SPDX-License-Identifier: GPL-2.0-only
"""
Makes a device of dm-integrity, which integritysetup does only where the host's kernel has a device
mapper: here the library's kernel formats it, by its C API. Run as a program: integrity.py LIBRARY
IMAGE CONTENTS ALGORITHM TAG-SIZE BLOCK-SIZE
"""

import ctypes
import os
import struct
import subprocess
import sys

SYS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "lseek": 8, "ioctl": 16, "fsync": 74, "mkdir": 83,
    "mknod": 133, "mount": 165
}
MAJOR, MINOR = 10, 236
CREATE, REMOVE, SUSPEND, LOAD = (0xc138_fd00 + number for number in (3, 4, 6, 9))
S_IFBLK, S_IFCHR, O_RDWR = 0o060600, 0o020600, 2
BLOCK = 1 << 20


class DiskConfig(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("path", ctypes.c_char_p), ("flags", ctypes.c_uint),
                ("sector_size", ctypes.c_uint), ("operations", ctypes.c_void_p),
                ("context", ctypes.c_void_p), ("capacity", ctypes.c_uint64)]


class Mapper:
    """The library's kernel with one disk and its device mapper."""

    def __init__(self, library: str, image: str):
        self.library = ctypes.CDLL(library)
        self.library.ob_syscall.restype = ctypes.c_long
        assert self.library.ob_boot(None) == 0
        name = ctypes.create_string_buffer(32)
        config = DiskConfig(ctypes.sizeof(DiskConfig), image.encode(), 0, 0, None, None, 0)
        added = self.library.ob_disk_add(ctypes.byref(config), name)
        assert added >= 0, os.strerror(-added)
        assert self.library.ob_component_load(b"dm-mod", b"") == 0
        self.call("mkdir", b"/w", 0o700)
        self.call("mkdir", b"/w/sys", 0o700)
        self.call("mount", b"sysfs", b"/w/sys", b"sysfs", 0, b"")
        self.call("mknod", b"/w/control", S_IFCHR, os.makedev(MAJOR, MINOR))
        self.control = self.call("open", b"/w/control", O_RDWR, 0)
        self.disk = self.read(b"/w/sys/class/block/" + name.value + b"/dev")

    def call(self, name, *arguments, may_fail=False):
        result = self.library.ob_syscall(
            ctypes.c_long(SYS[name]),
            *(argument if isinstance(argument, (bytes, ctypes.Array)) else ctypes.c_long(argument)
              for argument in arguments))
        assert result >= 0 or may_fail, f"{name}{arguments}: {os.strerror(-result)}"
        return result

    def read(self, path):
        file = self.call("open", path, 0, 0)
        text = ctypes.create_string_buffer(64)
        self.call("read", file, text, 64)
        self.call("close", file)
        return text.value.decode().strip()

    def ask(self, request, flags=0, table=None):
        """One request about our only mapping. Returns its device number. `table`: sectors and
        parameters.
        """
        data, count = b"", 0
        if table:
            sectors, parameters = table
            text = parameters.encode() + b"\0"
            text += bytes(-len(text) % 8)
            data = struct.pack("=QQiI16s", 0, sectors, 0, 40 + len(text), b"integrity") + text
            count = 1
        header = struct.pack("=3IIIIiIIIQ128s129s7x", 4, 27, 0, 312 + len(data), 312, count, 0,
                             flags, 0, 0, 0, b"made", b"")
        buffer = ctypes.create_string_buffer(header[:312].ljust(312, b"\0") + data, 312 + len(data))
        self.call("ioctl", self.control, request, buffer)
        return struct.unpack_from("=Q", buffer.raw, 40)[0]

    def map(self, sectors, parameters):
        number = self.ask(CREATE)
        self.ask(LOAD, 0, (sectors, parameters))
        self.ask(SUSPEND)
        return number

    def fill(self, number, contents, size):
        """Writes all of a device: every block gets its tag."""
        path = f"/w/{number}".encode()
        self.call("mknod", path, S_IFBLK, number)
        device = self.call("open", path, O_RDWR, 0)
        with open(contents, "rb") as stream:
            while size > 0:
                piece = stream.read(BLOCK).ljust(BLOCK, b"\0")[:size]
                written = self.call("write", device, piece, len(piece))
                assert written == len(piece)
                size -= written
        self.call("fsync", device)
        self.call("close", device)


def main(library, image, contents, algorithm, tag_size, block_size):
    mapper = Mapper(library, image)
    table = f"{mapper.disk} 0 {tag_size} J 2 internal_hash:{algorithm} block_size:{block_size}"
    mapper.map(8, table)
    mapper.ask(REMOVE)
    with open(image, "rb") as stream:
        sectors = struct.unpack_from("<Q", stream.read(24), 16)[0]
    number = mapper.map(sectors, table)
    mapper.fill(number, contents, sectors * 512)
    mapper.ask(REMOVE)
    assert mapper.library.ob_halt() == 0


def make(library: str, path: str, contents: str, algorithm="crc32c", tag_size=4,
         block_size=4096) -> str:
    """A device with these contents, in a new file."""
    with open(path, "wb") as stream:
        stream.truncate(os.path.getsize(contents) + (16 << 20))
    words = (library, path, contents, algorithm, tag_size, block_size)
    subprocess.run([sys.executable, __file__, *map(str, words)], check=True, timeout=120)
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])
