# SPDX-License-Identifier: GPL-2.0-only
"""Keys of encrypted volumes in memory: core dumps leave them out, and swap does not get them."""

import os
import re
import signal
import time
import typing

import pytest

from support import host, images, luks, mounts
from support.images import MEGABYTE
from support.mounts import mounted, server_of, servers
from support.patience import wait_until

pytestmark = [*mounts.MARKS, pytest.mark.needs("cryptsetup")]
PASSPHRASE = b"Xq7-two-unlikely-words-4Zk"
# The kernel in the process keeps its own copy, as docs/caveats.md says.
KERNEL_MEMORY = "/memfd:outboard-ram"


class Mapping(typing.NamedTuple):
    name: str
    start: int
    end: int
    flags: list


def mappings(process: int) -> list:
    """All mappings of a process, as smaps has them."""
    found: list = []
    with open(f"/proc/{process}/smaps", encoding="utf-8") as lines:
        for line in lines:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)", line)
            if head:
                found.append(Mapping(head[3], int(head[1], 16), int(head[2], 16), []))
            elif line.startswith("VmFlags:"):
                found[-1].flags.extend(line.split()[1:])
    return found


def dumped(process: int) -> typing.Iterator[bytes]:
    """The program's own memory in a core dump: all that can be read and is not left out.
    """
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for mapping in mappings(process):
            if "rd" not in mapping.flags or "dd" in mapping.flags or mapping.name.startswith(
                    KERNEL_MEMORY):
                continue
            for start in range(mapping.start, mapping.end, 64 * MEGABYTE):
                try:
                    yield os.pread(memory.fileno(), min(64 * MEGABYTE, mapping.end - start), start)
                except OSError:
                    break


def parent(process: int) -> int:
    with open(f"/proc/{process}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


@pytest.fixture(name="volume")
def encrypted_volume(work):
    """An encrypted volume with ext4, its key file and its volume key."""
    key = f"{work}/key"
    with open(key, "wb") as stream:
        stream.write(PASSPHRASE)
    image = images.make(f"{work}/disk.img", "ext4", 64)
    luks.encrypt(image, key)
    host.run("cryptsetup", "-q", "luksDump", "--dump-volume-key", "--key-file", key,
             "--volume-key-file", f"{work}/volume_key", image)
    with open(f"{work}/volume_key", "rb") as stream:
        return image, key, stream.read()


def test_a_core_dump_has_no_keys(volume):
    image, key, volume_key = volume
    half = len(volume_key) // 2
    secrets = {"passphrase": PASSPHRASE, "volume key": volume_key[:half],
               "second half of the volume key": volume_key[half:],
               "volume key as text": volume_key.hex().encode()[:half]}
    with mounted(image, "--key-file", key):
        server = server_of(image)
        for process in (server, parent(server)):
            for bytes_ in dumped(process):
                assert [name for name, secret in secrets.items() if secret in bytes_] == []


def test_keys_do_not_reach_swap(volume):
    image, key, _ = volume
    with mounted(image, "--key-file", key):
        found = mappings(server_of(image))
    assert [mapping for mapping in found if {"lo", "dd"} <= set(mapping.flags)]


def test_the_key_for_the_server_is_wiped(volume):
    """The file without a name through which the server gets it."""
    image, key, _ = volume
    with mounted(image, "--key-file", key):
        server = server_of(image)
        for process in (server, parent(server)):
            for name in os.listdir(f"/proc/{process}/fd"):
                path = f"/proc/{process}/fd/{name}"
                if "outboard-key" in os.readlink(path):
                    with open(path, "rb") as stream:
                        assert stream.read() == bytes(len(PASSPHRASE))


def test_a_server_that_is_started_again_gets_the_key_again(volume):
    """After a crash later than ten seconds after the mount."""
    image, key, _ = volume
    with mounted(image, "--restart", "--key-file", key) as directory:
        server = server_of(image)
        time.sleep(10.5)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: servers(image) not in ([], [server]), "a new process serves the image")
        wait_until(lambda: os.path.exists(f"{directory}/lost+found"), "the mount answers again")
