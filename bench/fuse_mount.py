# SPDX-License-Identifier: GPL-2.0-only
"""
A mounted image in use: ours, other FUSE servers for the same image, and the best that FUSE can do.
The last one is bindfs with several threads: it only passes requests on to the host's loop mount. No
package has libfuse's own example of such a server.
"""

import contextlib
import json
import os
import shutil
import time

from contenders import OURS, Contender, Result, Turns, host, program, scratch, take_turns
from support import images

MEGABYTES = 256
FILES = 2000
PASS_THROUGH = "bindfs on loop mount"
MAKERS = {"ntfs": ("mkntfs", "-q", "-F", "-f")}
# Name in the table, and unit.
ROWS = {
    "write": ("sequential write, flushed", "MB/s"),
    "read": ("sequential read", "MB/s"),
    "random": ("random read of 4 KB, the host may cache", "1/s"),
    "random16": ("random read of 4 KB, 16 threads, the host may cache", "1/s"),
    "create": ("files created", "1/s"),
    "stat": ("files looked up by stat", "1/s"),
    "unlink": ("files removed", "1/s"),
}


@contextlib.contextmanager
def ours(image: str):
    directory = host.temporary_directory()
    host.run(program.PROGRAM, "mount", image, directory)
    try:
        yield directory
    finally:
        host.run(program.PROGRAM, "umount", directory)
        os.rmdir(directory)


@contextlib.contextmanager
def pass_through(image: str):
    with host.loop_mount(image, "ext4") as below, host.mounted("bindfs", "--multithreaded",
                                                               below) as directory:
        yield directory


def drop_caches() -> None:
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as stream:
        stream.write("1")


def fio(directory: str, *options: str) -> dict:
    done = host.run("fio", "--name=f", f"--filename={directory}/big", "--output-format=json",
                    "--group_reporting", *options)
    text = done.stdout
    return json.loads(text[text.index("{"):])["jobs"][0]


def per_second(count: int, work) -> float:
    start = time.monotonic()
    work()
    return count / (time.monotonic() - start)


def touch(names: list) -> None:
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))


def looked_up(names: list) -> None:
    for name in names:
        os.stat(name)


def reading(directory: str) -> dict:
    """Of a file `big` that is there: each time from the server first, then more and more from the
    host's memory.
    """
    found = {}
    drop_caches()
    found["read"] = fio(directory, "--rw=read", "--bs=1m")["read"]["bw"] / 1024
    for name, jobs in (("random", 1), ("random16", 16)):
        drop_caches()
        found[name] = fio(directory, "--rw=randread", "--bs=4k", "--runtime=2", "--time_based",
                          f"--numjobs={jobs}", "--thread")["read"]["iops"]
    return found


def all_work(directory: str) -> dict:
    found = {
        "write": fio(directory, "--rw=write", "--bs=1m", f"--size={MEGABYTES}m",
                     "--end_fsync=1")["write"]["bw"] / 1024
    }
    found |= reading(directory)
    names = [f"{directory}/file{number}" for number in range(FILES)]
    found["create"] = per_second(FILES, lambda: touch(names))
    # A new process: what the host remembers of a file is not its server's speed, so all is
    # forgotten first.
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as stream:
        stream.write("2")
    found["stat"] = per_second(FILES, lambda: looked_up(names))
    found["unlink"] = per_second(FILES, lambda: [os.unlink(name) for name in names])
    return found


def in_mount(mount, image: str, work) -> dict:
    with mount(image) as directory:
        return work(directory)


def fuse_mount(rounds: int) -> list:
    if not host.has_fuse():
        return []
    with scratch() as directory:
        def fresh(kind: str, who: str) -> str:
            """One image each: a server may still write after it was unmounted."""
            image = os.path.join(directory, f"{who}.img")
            if kind == "ext4":
                return images.make(image, kind, 2 * MEGABYTES)
            host.run(*MAKERS[kind], host.sparse_file(image, 2 * MEGABYTES << 20))
            return image

        def squash() -> str:
            packed, tree = os.path.join(directory, "packed.img"), os.path.join(directory, "tree")
            if not os.path.exists(packed):
                os.makedirs(tree)
                images.write_noise(os.path.join(tree, "big"), MEGABYTES)
                host.run("mksquashfs", tree, packed, "-quiet", "-no-progress")
                shutil.rmtree(tree)
            return packed

        def turn(mount, kind: str, who: str) -> Contender:
            return Contender(who, lambda: in_mount(mount, fresh(kind, who.split()[0]), all_work))

        on_ext4 = [turn(ours, "ext4", OURS), turn(pass_through, "ext4", PASS_THROUGH),
                   turn(lambda path: host.mounted("fuse2fs", "-o", "rw", path), "ext4", "fuse2fs")]
        on_ntfs = [
            turn(ours, "ntfs", OURS),
            turn(lambda path: host.mounted("ntfs-3g", "-o", "big_writes", path), "ntfs", "ntfs-3g")
        ]
        on_squashfs = [
            Contender(OURS, lambda: in_mount(ours, squash(), reading)),
            Contender(
                "squashfuse",
                lambda: in_mount(lambda path: host.mounted("squashfuse", path), squash(), reading))
        ]
        results = []
        for kind, contenders, least in (("ext4", on_ext4, 0.8), ("ntfs", on_ntfs, 1),
                                        ("squashfs", on_squashfs, 1)):
            results += rows(kind, take_turns(contenders, rounds), least)
    return results


def rows(kind: str, turns: Turns, least: float) -> list[Result]:
    """A line of the table for each kind of work. Every other contender must be reached, the
    pass-through by `least`.
    """
    results = []
    for row, (name, unit) in ROWS.items():
        values = {who: [turn[row] for turn in measured]
                  for who, measured in turns.samples.items() if row in measured[0]}
        if not values and turns.samples:  # squashfs has no rows of writing
            continue
        result = Result(
            f"FUSE mount of {kind}: {name}", unit, values,
            f"at least {least} of the pass-through, and all others"
            if kind == "ext4" else "at least the other", None, left_out=turns.left_out)
        results.append(result)
        if OURS in values and len(values) > 1:
            mine = result.median(OURS)
            ratios = {who: mine / result.median(who) for who in values if who != OURS}
            result.ratio = ratios.get(PASS_THROUGH, min(ratios.values()))
            result.reached = all(ratio >= (least if who == PASS_THROUGH else 1)
                                 for who, ratio in ratios.items())
            if result.reached and turns.left_out:
                result.reached = None  # a contender that was left out may be faster
    return results
