# SPDX-License-Identifier: GPL-2.0-only
"""Archives into and out of an ext4 image: tar-in of a small and a large tree, tar-out of the large
one; flushed to the disk.
"""

import os
import random

from contenders import OURS, Contender, Result, host, program, scratch, seconds, take_turns
from support import images

HOST = "tar on the loop mount"
MKE2FS = "mke2fs -d"
MEGABYTE = 1 << 20


def make_tree(directory: str, files: int, megabytes: int) -> str:
    """Files of noise in directories of 20, sizes as they are found: many small ones, few large
    ones.
    """
    chosen = random.Random(5)
    mean = megabytes * MEGABYTE / files
    for number in range(files):
        folder = os.path.join(directory, f"d{number // 400}", f"e{number // 20 % 20}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"file{number}"), "wb") as stream:
            stream.write(chosen.randbytes(int(chosen.expovariate(1 / mean))))
    host.run("tar", "-cf", directory + ".tar", "-C", directory, ".")
    return directory


def packers_in(directory: str, tree: str, megabytes: int) -> list:
    image, place = os.path.join(directory, "in.img"), os.path.join(directory, "mount")
    archive = tree + ".tar"
    os.makedirs(place, exist_ok=True)

    def fresh():
        if os.path.exists(image):
            os.unlink(image)
        images.make(image, "ext4", megabytes)
        os.sync()

    def shell(script: str) -> float:
        fresh()
        return seconds("sh", "-ec", script, "sh", image, place, archive)

    def mke2fs() -> float:
        fresh()
        host.sparse_file(image, megabytes * MEGABYTE)
        return seconds("sh", "-ec", 'mke2fs -q -F -t ext4 -d "$1" "$2"; sync "$2"', "sh", tree,
                       image)

    return [
        Contender(OURS, lambda: shell(f'"{program.PROGRAM}" tar-in "$1:/" < "$3"; sync "$1"')),
        Contender(
            HOST,
            lambda: shell('mount -o loop "$1" "$2"; tar -xf "$3" -C "$2"; umount "$2"; sync "$1"')),
        Contender(
            "fuse2fs + tar",
            lambda: shell('fuse2fs -o rw "$1" "$2"; tar -xf "$3" -C "$2"; umount "$2"; sync "$1"')),
        Contender(MKE2FS, mke2fs)
    ]


def packers_out(directory: str, image: str) -> list:
    place, archive = os.path.join(directory, "mount"), os.path.join(directory, "out.tar")

    def shell(script: str) -> float:
        if os.path.exists(archive):
            os.unlink(archive)
        os.sync()
        return seconds("sh", "-ec", script, "sh", image, place, archive)

    return [
        Contender(OURS, lambda: shell(f'"{program.PROGRAM}" tar-out "$1:/" > "$3"')),
        Contender(HOST,
                  lambda: shell('mount -o loop,ro "$1" "$2"; tar -cf "$3" -C "$2" .; umount "$2"')),
        Contender("fuse2fs + tar",
                  lambda: shell('fuse2fs -o ro "$1" "$2"; tar -cf "$3" -C "$2" .; umount "$2"'))
    ]


def judge(result: Result, peer: str, most: float) -> Result:
    """Ours may take so many times as long as the peer, by the median of the rounds."""
    if peer in result.samples and OURS in result.samples:
        result.ratio = result.pair(OURS, peer)
        result.reached = result.ratio <= most
    return result


def tar_in_out(rounds: int) -> list:
    with scratch() as directory:
        small = take_turns(
            packers_in(directory, make_tree(os.path.join(directory, "small"), 1900, 32), 256),
            rounds)
        tree = make_tree(os.path.join(directory, "large"), 20_000, 500)
        large = take_turns(packers_in(directory, tree, 1024), rounds)
        filled = images.make_ext4_of(os.path.join(directory, "filled.img"), tree, 1024)
        out = take_turns(packers_out(directory, filled), rounds)
    first = judge(small.result("tar-in of 32 MB, 1,900 files, into ext4, flushed", "s",
                               "at most 0.4 s and 1.0 of mke2fs -d"), MKE2FS, 1.0)
    if first.reached:
        first.reached = first.median(OURS) <= 0.4
    target = "at least 0.9 of the speed of the host's"
    return [first,
            judge(large.result("tar-in of 500 MB, 20,000 files, into ext4, flushed", "s", target),
                  HOST, 1 / 0.9),
            judge(out.result("tar-out of the same", "s", target), HOST, 1 / 0.9)]
