# SPDX-License-Identifier: GPL-2.0-only
"""Work on files in ext4 and xfs, by the library and by the host's kernel: filework.c, the same code
for both.
"""

import os

from contenders import (OURS, OUT, REST_SECONDS, Contender, Result, Turns, host, rest, scratch,
                        seconds, take_turns, warm_memory)
from support import images

PROGRAM = os.path.join(OUT, "filework")
HOST = "host's loop mount"
ON_DEVICE = f"{OURS}, block device"
SLOWEST = 1.05
MEGABYTES = {"read": 1024, "write": 512}
NAMES = {
    "first_read": "first read of 512 MB after boot",
    "cold_read": "cold read of 512 MB",
    "second_read": "second read of 512 MB",
    "warm_read": "warm read of 512 MB",
    "disk_read": "read of 512 MB from disk",
    "random_read": "8,192 random reads of 4 KB from disk, 16 at once",
    "cold_list": "cold ls -lR of 8,000 files",
    "warm_list": "warm ls -lR of 8,000 files",
    "copy": "cp -a of 4,000 files, synced",
    "create": "create and fsync of 2,000 files",
}


def times_of(system: str, work: str, device: str, kind: str, directory: str, image: str) -> dict:
    """Work to seconds, as the program says."""
    lines = host.run(PROGRAM, system, work, device, kind, directory, image).stdout.splitlines()
    return {name: float(taken) for name, taken in map(str.split, lines)}


def on_loop(system: str, work: str, kind: str, directory: str, image: str) -> dict:
    with host.loop_device(image) as device:
        return times_of(system, work, device, kind, directory, image)


class Round:
    """One contender's turn: reads the common image, writes to a new one."""

    def __init__(self, kind: str, directory: str, mount: str, source: str):
        self.kind, self.mount, self.source = kind, mount, source
        self.target = os.path.join(directory, "target.img")

    def both(self, run) -> dict:
        """Both images are in the host's page cache, and written."""
        images.make(self.target, self.kind, MEGABYTES["write"])
        os.sync()
        seconds("cat", self.source, self.target)
        return {**run("read", self.source), **run("write", self.target)}

    def library(self) -> dict:
        return self.both(
            lambda work, image: times_of("library", work, image, self.kind, self.mount, image))

    def library_on_device(self) -> dict:
        return self.both(lambda work, image: on_loop("library", work, self.kind, self.mount, image))

    def host(self) -> dict:
        return self.both(lambda work, image: on_loop("host", work, self.kind, self.mount, image))


def measure(kind: str, rounds: int, before=warm_memory) -> Turns:
    """Each sample is a dictionary: work to seconds."""
    with scratch() as directory:
        mount = os.path.join(directory, "mount")
        os.mkdir(mount)
        source = images.make(os.path.join(directory, "source.img"), kind, MEGABYTES["read"])
        times_of("library", "fill", source, kind, mount, source)
        turn = Round(kind, directory, mount, source)
        contenders = [Contender(OURS, turn.library)]
        on_loop_devices = [Contender(ON_DEVICE, turn.library_on_device), Contender(HOST, turn.host)]
        if host.knows(kind):
            return take_turns(contenders + on_loop_devices, rounds, before)
        turns = take_turns(contenders, rounds, before)
        why = f"no loop mounts of {kind} on this host"
        turns.left_out |= {who.name: why for who in on_loop_devices}
        return turns


def judge(result: Result) -> Result:
    """The slower one of image and block device counts."""
    if HOST in result.samples and OURS in result.samples:
        result.ratio = max(
            result.pair(name, HOST) for name in (OURS, ON_DEVICE) if name in result.samples)
        result.reached = result.ratio <= SLOWEST
    return result


def file_work(rounds: int) -> list:
    """Image and block device against the host's loop mount; the image is in the host's page cache,
    but for "from disk".
    """
    results = []
    for kind in ("ext4", "xfs"):
        turns = measure(kind, rounds)
        for work, name in NAMES.items():
            result = turns.result(f"{kind}: {name}", "s", f"at most {SLOWEST} of the host's",
                                  lambda times, work=work: times[work])
            results.append(judge(result))
    rested = measure("ext4", rounds, rest).result(
        f"ext4: {NAMES['first_read']}, {REST_SECONDS} s of rest before", "s",
        f"at most {SLOWEST} of the host's", lambda times: times["first_read"])
    return [*results, judge(rested)]
