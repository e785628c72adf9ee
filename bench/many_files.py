# SPDX-License-Identifier: GPL-2.0-only
"""
Very many small files in a large sparse image: does time grow as their number does, and memory not
at all? The number is that of the environment's MANY_FILES (100,000; what was to be reached is about
1,000,000), against a quarter of it.
"""

import io
import os
import subprocess
import tarfile

from contenders import OURS, Contender, Result, host, program, scratch, seconds, take_turns

COUNT = int(os.environ.get("MANY_FILES", "100000"))
SIZE = 70 << 30
# Megabytes that were to be reached.
MOST = 200
HOST = "tar on the loop mount"
ROUNDS = 3


def make_archive(path: str, count: int) -> str:
    """Files of up to 3000 bytes, a thousand in each directory."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(count):
            folder = f"d{number // 1000}"
            if number % 1000 == 0:
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            member = tarfile.TarInfo(f"{folder}/file{number}")
            member.size = number * 7919 % 3000
            archive.addfile(member, io.BytesIO((b"%07d\n" % number * 376)[:member.size]))
            archive.members.clear()
    return path


def seconds_and_memory(image: str, archive: str) -> tuple:
    """Of unpacking by ours: seconds of processors, and MB that the process had at most, its kernel
    included.
    """
    with open(archive, "rb") as stream, subprocess.Popen(program.command("tar-in", f"{image}:/"),
                                                         stdin=stream) as running:
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise host.ToolFailed(f"tar-in ended with {running.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def many_files(rounds: int) -> list:
    with scratch() as directory:
        image, place = os.path.join(directory, "many.img"), os.path.join(directory, "mount")
        os.mkdir(place)
        counts = (COUNT // 4, COUNT)
        archives = {
            count: make_archive(os.path.join(directory, f"{count}.tar"), count)
            for count in counts
        }

        def fresh() -> None:
            host.sparse_file(image, SIZE)
            host.run("mke2fs", "-q", "-F", "-t", "ext4", image)
            os.sync()

        def ours(count: int):
            fresh()
            return seconds_and_memory(image, archives[count])

        def theirs() -> float:
            fresh()
            script = 'mount -o loop "$1" "$2"; tar -xf "$3" -C "$2"; umount "$2"; sync "$1"'
            return seconds("sh", "-ec", script, "sh", image, place, archives[COUNT])

        def whole() -> float:
            fresh()
            return seconds("sh", "-ec", f'"{program.PROGRAM}" tar-in "$1:/" < "$2"; sync "$1"',
                           "sh", image, archives[COUNT])

        names = [f"{count:,} files" for count in counts]
        contenders = [Contender(name, lambda count=count: ours(count))
                      for name, count in zip(names, counts)]
        turns = take_turns(contenders, min(rounds, ROUNDS))
        compared = take_turns(
            [Contender(OURS, whole), Contender(HOST, theirs)], min(rounds, ROUNDS))
    per_file = Result(
        f"tar-in of {COUNT:,} small files into 70 GB of ext4: processor time per file", "us", {
            name: [1e6 * turn[0] / count for turn in turns.samples[name]]
            for name, count in zip(names, counts) if name in turns.samples
        }, f"at most 1.25 of that of {names[0]}", None, left_out=turns.left_out)
    memory = turns.result("the same: memory of the whole process at most", "MB",
                          f"at most {MOST} MB", lambda turn: turn[1])
    if not turns.left_out:
        per_file.ratio = per_file.median(names[1]) / per_file.median(names[0])
        per_file.reached = per_file.ratio <= 1.25
        memory.reached = memory.median(names[1]) <= MOST
    return [per_file, memory, compared.result("the same: time, flushed", "s", "shown only")]
