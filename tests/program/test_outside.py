# SPDX-License-Identifier: GPL-2.0-only
"""Commands do no more outside of the sandbox than they must, once, and with the host's own
programs.
"""

import os
import subprocess
import time

import pytest

from support import host, images, program
from support.mounts import AS_NOBODY, NOBODY, is_mounted

HANGS = 300


def compressed(work):
    image = images.make(f"{work}/plain", "ext4")
    host.run("zstd", "-q", image, "-o", f"{work}/disk.zst")
    return f"{work}/disk.zst"


def converted(work):
    image = images.make(f"{work}/plain", "ext4")
    host.run("qemu-img", "convert", "-f", "raw", "-O", "vmdk", image, f"{work}/disk.vmdk")
    return f"{work}/disk.vmdk"


@pytest.mark.needs_root
@pytest.mark.needs("strace", "zstd", "qemu-img")
@pytest.mark.parametrize("make, sign", [(compressed, 'tmp", O_RDWR|O_CLOEXEC|O_TMPFILE'),
                                        (converted, '"convert"')], ids=["zstd", "vmdk"])
def test_a_mount_decodes_once(work, make, sign):
    """In the server, not in the command that the user has typed."""
    image, directory, trace = make(work), f"{work}/place", f"{work}/trace"
    for made in (directory, f"{work}/tmp"):
        os.mkdir(made)
    words = program.command("mount", "-o", "ro", image, directory)
    with subprocess.Popen(["strace", "-f", "-s", "200", "-o", trace, "-e",
                           "trace=openat,execve", *words],
                          stdin=subprocess.DEVNULL, env={**os.environ,
                                                         "TMPDIR": f"{work}/tmp"}) as running:
        try:
            deadline = time.monotonic() + HANGS
            while (not is_mounted(directory) and running.poll() is None
                   and time.monotonic() < deadline):
                time.sleep(0.05)
            assert os.listdir(directory) == ["lost+found"]
        finally:
            program.run("umount", directory)
            running.wait(HANGS)
    with open(trace, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().splitlines()
    found = [line for line in lines if sign in line and " = -1 " not in line]
    assert len(found) == 1, "\n".join(found)
    assert found[0].split()[0] != lines[0].split()[0], "the command itself did it"


@pytest.mark.needs("strace", "zstd")
def test_an_archive_is_counted_in_the_sandbox(work):
    """Without --size it is read once more, to find out how much is in it."""
    host.run("tar", "--zstd", "-cf", f"{work}/tree.tar.zst", "-C",
             images.write_few_files(f"{work}/tree"), ".")
    trace = f"{work}/trace"
    host.run("strace", "-f", "-o", trace, "-e", "trace=openat,seccomp,prctl",
             *program.command("mkfs", "ext4", f"{work}/new", "--from", f"{work}/tree.tar.zst"))
    shut_in, opened = set(), 0
    with open(trace, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            process = line.split()[0]
            if "seccomp(SECCOMP_SET_MODE_FILTER" in line or "PR_SET_SECCOMP" in line:
                shut_in.add(process)
            if "tree.tar.zst" in line and "O_PATH" not in line:
                opened += 1
                assert process in shut_in, line
    assert opened == 2
    host.run("e2fsck", "-f", "-n", f"{work}/new")


def fake(work, name):
    """A directory that PATH names relatively, as in "bin:...", with a program that fails."""
    os.makedirs(f"{work}/bin", exist_ok=True)
    with open(f"{work}/bin/{name}", "w", encoding="ascii") as stream:
        stream.write("#!/bin/sh\necho fake >&2\nexit 1\n")
    os.chmod(f"{work}/bin/{name}", 0o755)
    return {"PATH": f"bin:{os.environ['PATH']}", "cwd": work}


@pytest.mark.needs("strace", "qemu-img")
def test_the_converter_gets_a_clean_environment(work):
    """And is found by an absolute name."""
    image, trace = converted(work), f"{work}/trace"
    host.run("strace", "-f", "-v", "-s", "300", "-o", trace, "-e", "trace=execve",
             *program.command("info", image), SECRET="hidden")
    with open(trace, encoding="utf-8", errors="replace") as stream:
        found = [line for line in stream if '"convert"' in line]
    assert len(found) == 1, found
    assert "hidden" not in found[0], found
    assert 'execve("/' in found[0], found
    assert '"LC_ALL=C"' in found[0], found


@pytest.mark.needs_root
@pytest.mark.needs("fusermount3", "setpriv")
@pytest.mark.usefixtures("fuse_for_all")
def test_the_mount_helper_is_the_hosts(work):
    image, directory = images.make(f"{work}/disk", "ext4"), f"{work}/place"
    os.chmod(image, 0o666)
    os.mkdir(directory)
    os.chown(directory, NOBODY, NOBODY)
    where = fake(work, "fusermount3")
    program.good("mount", image, directory, prefix=AS_NOBODY, **where)
    program.good("umount", directory, prefix=AS_NOBODY, **where)
    assert not is_mounted(directory)
