#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Removes what a killed run of the tests has left: processes, mounts, loop devices, network
namespaces, scratch directories, the mode of /dev/fuse. Prints what it removes.

tests/run calls it before each run. While other tests run with the same out/, it does nothing. An
ordinary user removes what the user made.
"""

import contextlib
import glob
import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# These need the path above.
from support import host, mounts, net_namespaces, program, running  # noqa: E402

SCRATCH = os.path.join(program.OUT, "test-tmp")
# In the environment of all that a test starts, with the number of its pytest.
LOG_FILE = re.compile(rb"(?:^|\0)OUTBOARD_LOG_FILE=%s/test-results/kernel-warnings-(\d+)/"
                      % re.escape(os.fsencode(program.OUT)))


def say(text: str) -> None:
    print(f"left behind by a run that was killed: {text}", flush=True)


def has_ended(pid: str) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def was_left(pid: str) -> bool:
    """A process in another mount namespace may have another out/ of the same name."""
    with open(f"/proc/{pid}/environ", "rb") as stream:
        maker = LOG_FILE.search(stream.read())
    return (maker is not None and has_ended(os.fsdecode(maker[1]))
            and os.path.samefile(f"/proc/{pid}/root{program.OUT}", program.OUT))


def end_processes() -> None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if was_left(pid):
                os.kill(int(pid), signal.SIGKILL)
                say(f"process {pid}")


def free_loop_devices() -> None:
    for device, file in host.loop_devices().items():
        # losetup compares the file itself, not only its name.
        if (file.startswith(f"{os.path.realpath(SCRATCH)}/") and os.path.exists(file)
                and f"/dev/{device}:" in host.run("losetup", "-j", file, ok=None).stdout):
            host.run("losetup", "--detach", f"/dev/{device}", ok=None)
            say(f"/dev/{device} of {file}")


def remove_namespaces() -> None:
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    for name in names:
        maker = net_namespaces.MAKER.match(name)
        if maker and has_ended(maker[1]):
            host.run("ip", "netns", "del", name, ok=None)
            say(f"network namespace {name}")


def is_ours(path: str) -> bool:
    return os.lstat(path).st_uid == os.geteuid()


def elsewhere() -> list:
    """Scratch directories outside of out/ whose maker has ended."""
    found = []
    for place in {tempfile.gettempdir(), "/dev/shm"}:
        for path in glob.glob(f"{place}/{host.TEMPORARY}*"):
            maker = re.match(r"(\d+)-", os.path.basename(path).removeprefix(host.TEMPORARY))
            if maker and has_ended(maker[1]) and is_ours(path):
                found.append(path)
    return found


def remove_directories() -> None:
    inside = [path for path in glob.glob(f"{SCRATCH}/*") if host.IS_ROOT or is_ours(path)]
    for path in inside + elsewhere():
        host.remove_tree(path)
        say(path)


def restore_fuse() -> None:
    with contextlib.suppress(FileNotFoundError), open(mounts.FUSE_MODE, "r+") as kept:
        if mounts.restore_mode(kept, "/dev/fuse"):
            say("the mode of /dev/fuse")


def main() -> None:
    with running.nobody() as alone:
        if not alone:
            print("other tests run with this out/: nothing is swept", flush=True)
            return
        end_processes()
        if host.IS_ROOT:
            free_loop_devices()
            remove_namespaces()
            restore_fuse()
        remove_directories()


if __name__ == "__main__":
    main()
