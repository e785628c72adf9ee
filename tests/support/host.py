# SPDX-License-Identifier: GPL-2.0-only
"""The host's side of a test: tools of the distribution, loop mounts, FUSE mounts.

Every mount is a context manager that takes it down again, whatever happens inside.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time

PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
IS_ROOT = os.geteuid() == 0


class ToolFailed(AssertionError):
    """A host tool ended otherwise than it should."""


def environment(**more) -> dict:
    return {**os.environ, "PATH": PATH, "LC_ALL": "C.UTF-8", **more}


@functools.cache
def have(tool: str) -> bool:
    return shutil.which(tool, path=PATH) is not None


def run(*command, ok=(0,), timeout=300, text=True, cwd=None, input=None, **variables):
    """Runs a host tool; its exit code must be one of `ok` (None: any). Returns the CompletedProcess."""
    stdin = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run([str(word) for word in command], env=environment(**variables), text=text, cwd=cwd,
                          errors="replace" if text else None, capture_output=True, timeout=timeout, **stdin)
    if ok is not None and done.returncode not in ok:
        shown = (done.stdout + done.stderr) if text else done.stderr.decode(errors="replace")
        raise ToolFailed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{shown[-3000:]}")
    return done


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
        subprocess.run(["modprobe", "-q", kind], env=environment(), check=False, capture_output=True)
    return file_system_listed(kind)


def file_system_listed(kind: str) -> bool:
    with open("/proc/filesystems", encoding="ascii") as lines:
        return kind in (line.split()[-1] for line in lines)


def has_fuse() -> bool:
    return may_mount() and os.path.exists("/dev/fuse")


def unmount(directory: str) -> None:
    """Unmounts; a FUSE file system's process may need a moment."""
    for _ in range(20):
        if subprocess.run(["umount", directory], env=environment(), capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    run("umount", "-l", directory)


@contextlib.contextmanager
def mounted(*command):
    """Runs `command` with a new directory appended, gives the directory, unmounts at the end."""
    directory = tempfile.mkdtemp(prefix="outboard-mount-")
    try:
        run(*command, directory)
        try:
            yield directory
        finally:
            unmount(directory)
    finally:
        os.rmdir(directory)


def loop_mount(image: str, kind: str, options: str = "rw"):
    """The host kernel's own mount of an image."""
    return mounted("mount", "-t", kind, "-o", f"loop,{options}", image)


@contextlib.contextmanager
def loop_device(image: str, *options: str):
    """A loop device of the image, for tools that take nothing else."""
    device = run("losetup", "--find", "--show", *options, image).stdout.strip()
    try:
        yield device
    finally:
        run("losetup", "--detach", device)


def sparse_file(path: str, size: int) -> str:
    with open(path, "wb") as stream:
        stream.truncate(size)
    return path


def copy_sparse(source: str, target: str) -> None:
    run("cp", "--sparse=auto", "--reflink=auto", source, target)
