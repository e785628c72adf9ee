# SPDX-License-Identifier: GPL-2.0-only
"""The host's side of a test: tools of the distribution, loop mounts, FUSE mounts.

Every mount is a context manager that takes it down again, whatever happens inside, and waits until
the host has let go of the image: any process that has just copied its mount namespace (each sandbox
does) keeps mounts and loop devices of others busy for a moment.
"""

import contextlib
import functools
import glob
import os
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from support.patience import GUARD, wait_until

PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
# QEMU measures how fast it derives keys, and gives up where other work disturbs that: it is tried
# again.
BUSY_HOST = "Unable to get accurate CPU usage"
IS_ROOT = os.geteuid() == 0


def require_root() -> None:
    """Skips the test for ordinary users."""
    if not IS_ROOT:
        pytest.skip("needs root on the host")


def require_user_namespaces() -> None:
    """Skips the test where nothing can be mounted in namespaces of one's own."""
    apart = ("unshare", "--map-root-user", "--mount", "true")
    if not have("unshare") or run(*apart, ok=None).returncode:
        pytest.skip("no user namespaces here")


class ToolFailed(AssertionError):
    """A host tool ended otherwise than it should."""


def environment(**more) -> dict:
    return {**os.environ, "PATH": PATH, "LC_ALL": "C.UTF-8", **more}


def listens(path) -> bool:
    """Does a process listen at the path of a UNIX socket? Nothing connects to find out."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        return any(line.split()[3] == "00010000" and line.rstrip("\n").endswith(f" {path}")
                   for line in list(sockets)[1:])


@functools.cache
def have(tool: str) -> bool:
    return shutil.which(tool, path=PATH) is not None


@functools.cache
def processor_features() -> set:
    """Features of the processors that the host's kernel has enabled: words such as avx2."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return set(re.search(r"^flags\s*: (.*)$", lines.read(), flags=re.MULTILINE)[1].split())


def run(*command, ok=(0,), timeout=300, text=True, cwd=None, input=None, **variables):
    """Runs a host tool; its exit code must be one of `ok` (None: any). Returns the
    CompletedProcess.
    """
    stdin = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
    for _ in range(20):
        done = subprocess.run([str(word) for word in command], env=environment(**variables),
                              text=text, cwd=cwd, errors="replace" if text else None,
                              capture_output=True, timeout=timeout, **stdin)
        shown = (done.stdout + done.stderr) if text else done.stderr.decode(errors="replace")
        if done.returncode == 0 or BUSY_HOST not in shown:
            break
        time.sleep(0.5)
    if ok is not None and done.returncode not in ok:
        raise ToolFailed(
            f"{' '.join(map(str, command))} ended with {done.returncode}:\n{shown[-3000:]}")
    return done


# Begins the names of temporary directories outside of out/. The number of the process that made
# them follows. tests/sweep.py removes those of processes that have ended.
TEMPORARY = "outboard-test-"


def temporary_directory(place: str | None = None) -> str:
    """A new directory in the usual place or in this one."""
    return tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}-", dir=place)


@functools.cache
def may_mount() -> bool:
    """Whether loop devices and mounts work here: a container's root may have neither."""
    if not IS_ROOT:
        return False
    with tempfile.NamedTemporaryFile() as stream:
        stream.truncate(1 << 20)
        try:
            with loop_device(stream.name), mounted("mount", "-t", "tmpfs", "none"):
                return True
        except ToolFailed:
            return False


@functools.cache
def knows(kind: str) -> bool:
    """Whether the host's kernel can mount this type by a loop device, for us."""
    if not may_mount():
        return False
    if not file_system_listed(kind):
        subprocess.run(["modprobe", "-q", kind], env=environment(), check=False,
                       capture_output=True)
    return file_system_listed(kind)


def require_mount(kind: str) -> None:
    """Skips the rest of a test where the host cannot mount this type."""
    require_root()
    if not knows(kind):
        pytest.skip(f"the host cannot mount {kind} here")


def file_system_listed(kind: str) -> bool:
    with open("/proc/filesystems", encoding="ascii") as lines:
        return kind in (line.split()[-1] for line in lines)


def has_fuse() -> bool:
    """Whether `outboard mount` works here. Users have fusermount3 for that."""
    if IS_ROOT:
        return may_mount() and os.path.exists("/dev/fuse")
    return have("fusermount3") and os.access("/dev/fuse", os.R_OK | os.W_OK)


def unmount(directory: str) -> None:
    """Unmounts, and tries again while the mount is busy. A FUSE server or a copied mount namespace
    keeps it busy only for a moment.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done = run("umount", directory, ok=None)
        if done.returncode == 0 or "not mounted" in done.stderr:
            return
        time.sleep(0.1)
    run("umount", "-l", directory)


def detach(directory: str) -> None:
    """Takes a mount down that may be busy, or whose server may have ended."""
    run(*(("umount", "-l") if IS_ROOT else ("fusermount3", "-u", "-z")), directory, ok=None)


def mounts_below(directory: str) -> list:
    """Mount points in a directory and below it, the last one first."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        points = [line.split()[4] for line in lines]
    return [
        point for point in reversed(points)
        if point == directory or point.startswith(f"{directory}/")
    ]


def remove_tree(directory: str) -> None:
    """Removes what a test leaves: mounts too, directories that a user has closed, and files that a
    process makes which is just ending.
    """
    deadline = time.monotonic() + GUARD
    while True:
        for point in mounts_below(directory):
            detach(point)
        try:
            shutil.rmtree(directory)
            return
        except FileNotFoundError:
            if not os.path.lexists(directory):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            if not IS_ROOT:
                run("chmod", "-R", "u+rwX", directory, ok=None)
        time.sleep(0.1)


@contextlib.contextmanager
def mounted(*command):
    """Runs `command` with a new directory appended, gives the directory, unmounts at the end."""
    directory = temporary_directory()
    try:
        with_loop_device(*command, directory)
        try:
            yield directory
        finally:
            unmount(directory)
    finally:
        os.rmdir(directory)


def with_loop_device(*command):
    """Runs a command that may set up a loop device. Two that look for a free one at once can find
    the same.
    """
    for _ in range(100):
        done = run(*command, ok=None)
        if done.returncode == 0:
            return done
        if not re.search("loop device|/dev/loop.*busy", done.stderr):
            break
        time.sleep(0.1)
    return run(*command)


def loop_devices() -> dict:
    """Paths of the files of all loop devices, by the names of the devices."""
    found = {}
    for name in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError), open(name, encoding="utf-8",
                                                errors="surrogateescape") as stream:
            found[name.split("/")[3]] = stream.read().rstrip("\n").removesuffix(" (deleted)")
    return found


def loop_devices_of(image: str) -> list:
    """Loop devices that have this file."""
    path = os.path.realpath(image)
    return [device for device, file in loop_devices().items() if file == path]


def wait_until_free(image: str) -> None:
    """Until no loop device has the image: not before is an unmounted file system complete in it."""
    wait_until(lambda: not loop_devices_of(image), f"{image} is free of loop devices")


@contextlib.contextmanager
def loop_mount(image: str, kind: str, options: str = "rw"):
    """The host kernel's own mount of an image."""
    with mounted("mount", "-t", kind, "-o", f"loop,{options}", image) as directory:
        yield directory
    wait_until_free(image)


@contextlib.contextmanager
def loop_device(image: str, *options: str):
    """A loop device of the image, for tools that take nothing else."""
    device = with_loop_device("losetup", "--find", "--show", *options, image).stdout.strip()
    name = os.path.basename(device)
    try:
        yield device
    finally:
        # A busy device is detached when its last user closes it.
        run("losetup", "--detach", device)
        wait_until(lambda: name not in loop_devices_of(image), f"{device} has no file")


def sparse_file(path: str, size: int) -> str:
    with open(path, "wb") as stream:
        stream.truncate(size)
    return path


def copy_sparse(source: str, target: str) -> None:
    run("cp", "--sparse=auto", "--reflink=auto", source, target)
