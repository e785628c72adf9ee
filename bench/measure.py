#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The benchmarks: each compares outboard, in one run, with what a user would take instead.

Prints one table; writes out/bench/NAME.json with every sample, and a plot. Figures are
medians; only ratios of one run mean anything. Nothing here fails because something is slow.

--record DIR keeps the samples in DIR, too. docs/benchmarks is such a directory: the tables of
README.md and docs/benchmarks.md are made from it (bench/tables.py).
"""

import argparse
import os
import random
import shutil
import statistics
import time

import record
import tables
from contenders import OURS, OUT, Contender, Result, host, program, scratch, seconds, take_turns
from filework import file_work
from fuse_mount import fuse_mount
from labs import labs
from many_files import many_files
from network import network
from programs import run_programs
from remote import remote_calls
from run_bind import run_bind
from run_servers import run_servers
from run_work import run_work
from support import images
from tar_in_out import tar_in_out
from web_server import web_server

MEGABYTE = 1 << 20
# Of a benchmark that is recorded: a median of fewer rounds says little.
LEAST_ROUNDS = 5


def lines_of_numbers(command: list, **variables) -> list:
    return [[float(word) for word in line.split()]
            for line in host.run(*command, **variables).stdout.splitlines()]


def null_call(rounds: int) -> list:
    """getppid, one thread and two."""
    columns = list(zip(*lines_of_numbers([os.path.join(OUT, "null_call"), rounds])))
    host_one, host_two, ours_one, ours_two = map(list, columns)
    one = Result("null call (getppid), one thread", "ns",
                 {OURS: ours_one, "host's system call": host_one}, "at most 0.25 of the host's",
                 None)
    one.ratio = one.median(OURS) / one.median("host's system call")
    one.reached = one.ratio <= 0.25
    scaling = [single / double for single, double in zip(ours_one, ours_two)]
    host_scaling = [single / double for single, double in zip(host_one, host_two)]
    two = Result("two threads against one, calls per second", "times",
                 {OURS: scaling, "host's system call": host_scaling}, "at least 1.7 times", None)
    two.ratio = two.median(OURS)
    two.reached = two.ratio >= 1.7
    return [one, two]


HOST_CALLS = "host's system calls"


def switching(rounds: int) -> list:
    """Threads that meet in the kernel: contended calls, a pipe, threads that come and go."""
    results = []
    for vcpus in (1, 2):
        lines = lines_of_numbers([os.path.join(OUT, "switching"), vcpus, rounds])
        columns = {
            HOST_CALLS: list(map(list, zip(*lines[0::2]))), OURS: list(map(list, zip(*lines[1::2])))
        }
        if vcpus == 1:
            # Two threads of one vCPU never wake another processor: nor do these.
            processor = min(os.sched_getaffinity(0))
            command = [os.path.join(OUT, "switching"), vcpus, rounds]
            lines = lines_of_numbers(["taskset", "-c", processor, *command])
            columns[f"{HOST_CALLS}, one processor"] = list(map(list, zip(*lines[0::2])))

        def result(name: str, unit: str, value, target: str) -> Result:
            samples = {who: value(*of) for who, of in columns.items()}
            return Result(f"{name}, {vcpus} vCPU{'s' if vcpus > 1 else ''}", unit, samples, target,
                          None)

        def times(slow: int, fast: int):
            return lambda *of: [one / two for one, two in zip(of[slow], of[fast])]

        limit = 1.0 if vcpus == 1 else 1.2
        trip = result("pipe ping-pong of two threads", "ns", lambda *of: of[6],
                      f"at most {limit} of the host's")
        compare(trip, HOST_CALLS, limit)
        results.append(trip)
        spent = result("pipe ping-pong, processor time of both", "ns", lambda *of: of[7],
                       "shown: a waiter polls for a while, where the host's sleeps at once")
        spent.ratio = spent.pair(OURS, HOST_CALLS)
        results.append(spent)
        turns = result("two threads in turn, a call each", "ns", lambda *of: of[9],
                       "at most 50,000 ns")
        turns.ratio = turns.pair(OURS, HOST_CALLS)
        turns.reached = turns.median(OURS) <= 50_000
        results.append(turns)
        if vcpus == 2:
            created = result("thread created, one call, joined", "ns", lambda *of: of[8],
                             "at most twice the host's")
            compare(created, HOST_CALLS, 2.0)
            results += [
                created,
                reach(
                    result("getrlimit: two threads against one", "times", times(0, 1),
                           "at least 1.9"), 1.9),
                reach(
                    result("setrlimit: two threads against one", "times", times(2, 3),
                           "at least 1.5"), 1.5),
                reach(
                    result("mixed calls: eight threads against two", "times", times(4, 5),
                           "at least 0.9"), 0.9)
            ]
    return results


def latency(rounds: int) -> list:
    """Sleeps of one thread, and the first touch of its pages."""
    lines = lines_of_numbers([os.path.join(OUT, "latency"), rounds])
    theirs, ours = (list(map(list, zip(*lines[start::2]))) for start in (0, 1))

    def result(name: str, index: int, target: str) -> Result:
        return Result(name, "ns", {OURS: ours[index], HOST_CALLS: theirs[index]}, target, None)

    sleeps = [result("nanosleep of 50 us: time beyond that", 0, "at most 1.3 of the host's"),
              result("ppoll with 200 us: time beyond that", 1, "at most 1.3 of the host's")]
    for sleep in sleeps:
        compare(sleep, HOST_CALLS, 1.3)
    touch = result("first write to a page of anonymous memory", 2, "at most 10,000 ns")
    touch.reached = touch.median(OURS) <= 10_000
    return [*sleeps, touch]


def reach(result: Result, least: float) -> Result:
    result.ratio = result.median(OURS)
    result.reached = result.ratio >= least
    return result


def small_tree(directory: str) -> str:
    tree = os.path.join(directory, "small")
    os.makedirs(tree)
    for number in range(50):
        with open(os.path.join(tree, f"file{number}"), "wb") as stream:
            stream.write(b"x" * number)
    return tree


def guestfish() -> dict:
    """The environments of libguestfs by the contender's name. Most places where images are built
    have no KVM.
    """
    direct = {"LIBGUESTFS_BACKEND": "direct"}
    found = {"libguestfs without KVM": {**direct, "LIBGUESTFS_BACKEND_SETTINGS": "force_tcg"}}
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        found["libguestfs with KVM"] = direct
    return found


def listing(rounds: int) -> list:
    """`ls` of an ext4 image: the whole process."""
    with scratch() as directory:
        image = images.make_ext4_of(os.path.join(directory, "list.img"), small_tree(directory), 256)
        place = os.path.join(directory, "mount")
        os.mkdir(place)
        mounting = 'fuse2fs -o ro "$1" "$2"; ls "$2"; umount "$2"'
        contenders = [
            Contender(OURS, lambda: seconds(program.PROGRAM, "ls", f"{image}:/")),
            Contender("outboard --no-sandbox",
                      lambda: seconds(program.PROGRAM, "--no-sandbox", "ls", f"{image}:/")),
            Contender("fuse2fs + ls", lambda: seconds("sh", "-ec", mounting, "sh", image, place)),
            Contender("debugfs", lambda: seconds("debugfs", "-R", "ls /", image)),
            Contender("e2ls", lambda: seconds("e2ls", f"{image}:/")),
        ]
        for name, variables in guestfish().items():
            contenders.append(Contender(name, lambda variables=variables: seconds(
                "guestfish", "--ro", "-a", image, "-m", "/dev/sda", "ls", "/", **variables)))
        result = take_turns(contenders, rounds).result("ls of an ext4 image, whole process", "s",
                                                       "at most 8 ms, in the sandbox")
    if OURS in result.samples:
        result.reached = result.median(OURS) <= 0.008
    return [result]


def loop_seconds(image: str, options: str, work) -> float:
    """The time that work(directory) says, in a fresh loop mount of the host."""
    with host.loop_mount(image, "ext4", options) as directory:
        return work(directory)


def fuse_seconds(image: str, options: str, work) -> float:
    with host.mounted("fuse2fs", "-o", options, image) as directory:
        return work(directory)


# `wait` without a process id succeeds even if a reader failed.
FOUR_READERS = """
readers=
for i in 0 1 2 3; do
    dd if="$1" iflag=direct bs=512K skip=$((i * 512)) count=512 status=none &
    readers="$readers $!"
done
for reader in $readers; do
    wait "$reader"
done
"""


def big_read(rounds: int) -> list:
    """One 1 GB file; the image is in the host's cache, the file system on it is freshly mounted."""
    with scratch() as directory:
        tree = os.path.join(directory, "big")
        os.makedirs(tree)
        images.write_noise(os.path.join(tree, "file"), 1024)
        image = images.make_ext4_of(os.path.join(directory, "big.img"), tree, 1536)
        shutil.rmtree(tree)
        seconds("cat", image)

        def cat(mount: str) -> float:
            return seconds("cat", os.path.join(mount, "file"))

        def cat_as_ours(mount: str) -> float:
            """As `outboard cat` reads a large file: several readers, past the page cache of the
            file system.
            """
            return seconds("sh", "-ec", FOUR_READERS, "sh", os.path.join(mount, "file"))

        contenders = [
            Contender(OURS, lambda: seconds(program.PROGRAM, "cat", f"{image}:/file")),
            Contender("host's loop mount", lambda: loop_seconds(image, "ro", cat)),
            Contender("the same, four readers with O_DIRECT",
                      lambda: loop_seconds(image, "ro", cat_as_ours)),
            Contender("fuse2fs", lambda: fuse_seconds(image, "ro", cat)),
            Contender("debugfs cat", lambda: seconds("debugfs", "-R", "cat /file", image)),
        ]
        turns = take_turns(contenders, rounds)
    name = "reading a 1 GB file from ext4 (ours with boot, theirs without the mount)"
    result = turns.result(name, "MB/s", "at least 0.9 of the host's", lambda taken: 1024 / taken)
    compare(result, "host's loop mount", 0.9, larger=True)
    return [result]


def compare(result: Result, peer: str, limit: float, larger: bool = False) -> None:
    if peer in result.samples and OURS in result.samples:
        result.ratio = result.median(OURS) / result.median(peer)
        result.reached = result.ratio >= limit if larger else result.ratio <= limit


def source_tree(directory: str) -> str:
    """8,000 files in 400 directories, 114 MB in all."""
    chosen = random.Random(5)
    tree = os.path.join(directory, "tree")
    for folder in range(400):
        path = os.path.join(tree, f"d{folder // 20}", f"e{folder % 20}")
        os.makedirs(path)
        for number in range(20):
            with open(os.path.join(path, f"file{number}"), "wb") as stream:
                stream.write(chosen.randbytes(int(chosen.expovariate(1 / 14_900))))
    return tree


def copy_tree(rounds: int) -> list:
    """cp -a of a tree into an empty ext4 image and out again; theirs with mount and umount."""
    with scratch() as directory:
        tree = source_tree(directory)
        into = take_turns(copiers_in(directory, tree), rounds)
        filled = images.make_ext4_of(os.path.join(directory, "filled.img"), directory_of(tree), 512)
        out = take_turns(copiers_out(directory, filled), rounds)
    target = "at most 1.2 of the host's, faster than fuse2fs"
    results = [into.result("cp -a of 8,000 files, 114 MB, into ext4, flushed", "s", target),
               out.result("the same out again", "s", target)]
    for result in results:
        compare(result, "host's loop mount", 1.2)
        if result.reached:
            # Without a figure of fuse2fs the row is not judged.
            result.reached = (result.median(OURS) < result.median("fuse2fs")
                              if "fuse2fs" in result.samples else None)
    return results


def directory_of(tree: str) -> str:
    """A directory that holds only the tree, hard-linked, as mke2fs -d wants it."""
    parent = tree + ".parent"
    os.mkdir(parent)
    host.run("cp", "-al", tree, parent)
    return parent


def copiers_in(directory: str, tree: str) -> list:
    image = os.path.join(directory, "in.img")

    def fresh():
        images.make(image, "ext4", 512)
        host.run("sync", image)

    def ours():
        fresh()
        return seconds("sh", "-ec", '"$1" cp -a "$2" "$3:/"; sync "$3"', "sh", program.PROGRAM,
                       tree, image)

    def mounted(mount, *unmount):
        fresh()
        place = os.path.join(directory, "mount")
        os.makedirs(place, exist_ok=True)
        return seconds("sh", "-ec",
                       f'{mount} "$1" "$2"; cp -a "$3" "$2"; {" ".join(unmount)} "$2"; sync "$1"',
                       "sh", image, place, tree)

    def mke2fs():
        host.sparse_file(image, 512 * MEGABYTE)
        return seconds("sh", "-ec", 'mke2fs -q -F -t ext4 -d "$1" "$2"; sync "$2"', "sh", tree,
                       image)

    return [
        Contender(OURS, ours),
        Contender("host's loop mount", lambda: mounted("mount -o loop", "umount")),
        Contender("fuse2fs", lambda: mounted("fuse2fs -o rw", "umount")),
        Contender("mke2fs -d", mke2fs)
    ]


def copiers_out(directory: str, image: str) -> list:
    place, target = os.path.join(directory, "mount"), os.path.join(directory, "copy")

    def timed(run):
        shutil.rmtree(target, ignore_errors=True)
        host.run("sync")
        os.makedirs(place, exist_ok=True)
        return run()

    def script(text):
        """What it copies is on the disk at its end."""
        return seconds("sh", "-ec", f'{text}; sync -f "$3"', "sh", image, place, target,
                       PROGRAM=program.PROGRAM)

    def mounted(mount):
        return lambda: timed(lambda: script(f'{mount} "$1" "$2"; cp -a "$2/tree" "$3"; '
                                            'umount "$2"'))

    def rdump():
        os.mkdir(target)
        return script('debugfs -R "rdump /tree $3" "$1"')

    return [
        Contender(OURS, lambda: timed(lambda: script('"$PROGRAM" cp -a "$1:/tree" "$3"'))),
        Contender("host's loop mount", mounted("mount -o loop,ro")),
        Contender("fuse2fs", mounted("fuse2fs -o ro")),
        Contender("debugfs rdump", lambda: timed(rdump))
    ]


CALLS = {
    "getppid": "getppid", "getrlimit": "getrlimit", "read": "read of 1 byte of /dev/zero",
    "pread64": "pread64 of 1 byte of a file in memory"
}


def count_instructions(path: str) -> dict:
    counts = {}
    for line in host.run(path, 21).stdout.splitlines():
        call, count, host_calls = line.split()
        if int(host_calls):
            raise host.ToolFailed(f"{call} makes {host_calls} host calls")
        counts[call] = int(count)
    return counts


def instructions(rounds: int) -> list:
    """The way of a call into the kernel and out again, the call's own work included, counted by
    single-stepping.
    """
    counts = [count_instructions(os.path.join(OUT, "instructions")) for _ in range(rounds)]
    return [
        Result(f"instructions of {name}", "", {OURS: [count[call] for count in counts]},
               "shown; no host call", None) for call, name in CALLS.items()
    ]


UNIPROCESSOR = "SMP=n"


def smp(rounds: int) -> list:
    """The cost of support for several vCPUs: the profile base against the same with
    SMP=n, if both are built.
    """
    variants = {OURS: "base", UNIPROCESSOR: "base-up"}
    if not os.path.exists(os.path.join(OUT, "null_call-base-up")):
        print("left out: smp: make library PROFILE=base, and the same with SMP=n, come first")
        return []

    def null_call_of(variant):
        return lines_of_numbers([os.path.join(OUT, f"null_call-{variant}"), 1, "one"])[0][0]

    contenders = [Contender(name, lambda variant=variant: null_call_of(variant))
                  for name, variant in variants.items()]
    time_taken = take_turns(contenders, rounds).result(
        "null call (getppid), one thread of a kernel with two vCPUs", "ns",
        f"at most 1.10 of {UNIPROCESSOR}")
    if not time_taken.left_out:
        time_taken.pair(OURS, UNIPROCESSOR)
    compare(time_taken, UNIPROCESSOR, 1.10)
    counts = {
        name: count_instructions(os.path.join(OUT, f"instructions-{variant}"))
        for name, variant in variants.items()
    }
    results = [time_taken]
    for call, name in CALLS.items():
        results.append(
            Result(f"instructions of {name}", "",
                   {who: [count[call]]
                    for who, count in counts.items()}, "shown", None))
        results[-1].ratio = counts[OURS][call] / counts[UNIPROCESSOR][call]
    return results


def boot(rounds: int) -> list:
    """Per profile that is built: boot to the first system call, memory after it, size of the
    library.
    """
    os.sync()  # pages of a library that was just written would count as dirty
    profiles = [
        name for name in ("base", "vfs", "net", "full")
        if os.path.exists(os.path.join(OUT, f"boot_time-{name}"))
    ]
    if "base" not in profiles:
        print("left out: boot of the profile base: make library PROFILE=base comes first")
    samples = {name: [] for name in profiles}
    for _ in range(max(rounds, 11)):
        for name in profiles:
            samples[name] += lines_of_numbers([os.path.join(OUT, f"boot_time-{name}")])
    results = []
    columns = (("boot to the first system call", "ms"), ("private dirty memory after boot", "kB"),
               ("resident memory after boot", "kB"))
    for index, (what, unit) in enumerate(columns):
        values = {name: [sample[index] for sample in rows] for name, rows in samples.items()}
        base = index == 0 and "base" in values
        results.append(
            Result(what, unit, values, "base at most 2 ms, full 4 ms" if base else "shown", None))
        if base:
            results[-1].reached = all(results[-1].median(name) <= most
                                      for name, most in (("base", 2), ("full", 4))
                                      if name in values)
    sizes = {name: [library_size(name)] for name in profiles}
    return [*results, Result("size of liboutboard.so, stripped", "kB", sizes, "shown", None)]


def snapshot(rounds: int) -> list:
    """From a snapshot to the first system call, and memory after it: with nothing loaded, and with
    drivers.
    """
    wishes = {
        "nothing loaded": "", "with ext4": "ext4", "with ext4, xfs and btrfs": "ext4 xfs btrfs"
    }
    samples = {name: [] for name in wishes}
    with scratch() as directory:
        def start(components: str) -> list:
            return lines_of_numbers([os.path.join(OUT, "snapshot_time")], SNAPSHOTS=directory,
                                    COMPONENTS=components)
        os.chmod(directory, 0o700)
        for components in wishes.values():
            start(components)
        os.sync()
        time.sleep(3)  # after this it is noted that the checksum is right
        for components in wishes.values():
            start(components)
        for _ in range(max(rounds, 21)):
            for name, components in wishes.items():
                samples[name] += start(components)
    results = []
    columns = (("from a snapshot to the first system call", "ms", 0.5),
               ("private dirty memory after a start from a snapshot", "kB", 700))
    for index, (what, unit, most) in enumerate(columns):
        values = {name: [sample[index] for sample in rows] for name, rows in samples.items()}
        results.append(Result(what, unit, values, f"at most {most} {unit}, with ext4", None))
        results[-1].reached = results[-1].median("with ext4") <= most
    return results


def instances(rounds: int) -> list:
    """A second kernel in the process, and a boot after a halt."""
    rows = lines_of_numbers([os.path.join(OUT, "instances"), max(rounds, 11)])
    times, memory = ({name: [row[column + offset] for row in rows] for name, column
                      in (("first kernel", 0), ("second beside it", 2), ("first again", 4))}
                     for offset in (0, 1))
    boots = Result("boot to the first system call", "ms", times,
                   "the second at most 1.2 of the first", None)
    boots.ratio = boots.pair("second beside it", "first kernel")
    boots.reached = boots.ratio <= 1.2
    return [boots, Result("private dirty memory that it adds", "kB", memory, "shown", None)]


def library_size(profile: str) -> float:
    path = os.path.join(program.OUT, "lib", "" if profile == "full" else profile, "liboutboard.so")
    stripped = os.path.join(OUT, "stripped.so")
    host.run("strip", "-o", stripped, path)
    size = os.path.getsize(stripped) / 1024
    os.unlink(stripped)
    return size


BENCHMARKS = {
    "null_call": null_call, "instructions": instructions, "smp": smp, "switching": switching,
    "latency": latency, "listing": listing, "big_read": big_read, "copy_tree": copy_tree,
    "file_work": file_work, "tar_in_out": tar_in_out, "fuse_mount": fuse_mount,
    "many_files": many_files, "boot": boot, "instances": instances, "snapshot": snapshot,
    "network": network, "web_server": web_server, "labs": labs, "programs": run_programs,
    "run_work": run_work, "run_servers": run_servers, "run_bind": run_bind,
    "remote_calls": remote_calls
}


def print_result(result: Result) -> None:
    verdict = {None: "", True: ": reached", False: ": NOT reached"}[result.reached]
    ratio = f" (ratio {result.ratio:.2f})" if result.ratio is not None else ""
    print(f"\n{result.name}\n    to reach: {result.target}{verdict}{ratio}")
    for name, values in result.samples.items():
        line = (f"    {name:24} {result.median(name):12.4g} {result.unit:6} "
                f"[{min(values):.4g} - {max(values):.4g}, n={len(values)}]")
        pairs = result.ratios.get(name)
        print(line + (
            f", round by round {statistics.median(pairs):.2f} [{min(pairs):.2f} - {max(pairs):.2f}]"
            if pairs else ""))
    for name, reason in result.left_out.items():
        print(f"    {name:24} left out: {reason}")


def plotted(results: list[Result]) -> str:
    """Draws the plot, if matplotlib is installed. Returns what to print."""
    try:
        from plot import draw
    except ModuleNotFoundError as error:
        return f"no plot: {error}"
    return f"plot: {draw(results, OUT)}"


def main() -> None:
    # bench/run looks for the whole word --record.
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", metavar="DIR",
                        help="keep the samples of committed sources in this directory, too")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if chosen.record and chosen.rounds < LEAST_ROUNDS:
        parser.error(f"a record needs at least {LEAST_ROUNDS} rounds")
    commit = record.commit()
    if chosen.record and commit.endswith(record.CHANGED):
        parser.error("a record names the commit that was measured: "
                     "commit the changes and new files first")
    found = []
    print(f"{os.cpu_count()} processors, Linux {os.uname().release}, "
          f"load average at the start: {os.getloadavg()[0]:.2f}")
    for name in chosen.names or BENCHMARKS:
        before = os.getloadavg()[0]
        results = BENCHMARKS[name](chosen.rounds)
        text = record.text(name, results, chosen.rounds, commit, before)
        for directory in filter(None, (OUT, chosen.record)):
            record.write(directory, name, text)
        for result in results:
            print_result(result)
        found += results
    print(f"\nload average at the end: {os.getloadavg()[0]:.2f}")
    measured = [result for result in found if result.samples]
    if measured:
        print(plotted(measured))
    table = tables.of_readme(record.read(OUT))
    print(f"\n{table or 'No table of README.md: not all of its benchmarks have been run.'}")


if __name__ == "__main__":
    main()
