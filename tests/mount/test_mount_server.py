# SPDX-License-Identifier: GPL-2.0-only
"""The server of `outboard mount`: what it keeps, and how it ends, by signals, crashes and restarts.
"""

import contextlib
import fcntl
import itertools
import os
import signal
import subprocess
import time

import pytest

from support import host, images, modules, mounts, program
from support.images import MEGABYTE
from support.mounts import (check, is_mounted, mounted, server_of, servers, wait_until_mounted,
                            wait_until_unserved)
from support.patience import wait_until
from support.program import bad, good

pytestmark = mounts.MARKS


@pytest.mark.needs("mksquashfs")
def test_what_the_host_has_read_ahead_is_not_kept_twice(work):
    """Where only whole blocks can be read: a squashfs of data that cannot be compressed."""
    os.mkdir(f"{work}/tree")
    images.write_noise(f"{work}/tree/big", 128)
    host.run("mksquashfs", f"{work}/tree", f"{work}/packed.img", "-quiet", "-no-progress")
    with mounted(f"{work}/packed.img") as directory:
        server = server_of(f"{work}/packed.img")
        host.run("cmp", f"{work}/tree/big", f"{directory}/big")
        with open(f"/proc/{server}/status", encoding="ascii") as lines:
            (memory,) = [int(line.split()[1]) for line in lines if line.startswith("RssShmem:")]
        assert memory < 64 << 10, memory


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_well(work, ext4, number):
    directory = f"{work}/place"
    os.mkdir(directory)
    keeper = subprocess.Popen([*program.command("mount"), "-f", ext4, directory])
    wait_until_mounted(directory)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept" * 100_000)
    with open(f"{directory}/open", "wb") as stream:
        stream.write(b"open")
        stream.flush()
        keeper.send_signal(number)
        assert keeper.wait(60) == 0
    assert not is_mounted(directory) and not servers(ext4)
    check(ext4, "ext4")
    assert len(good("cat", f"{ext4}:/file").raw) == 400_000
    assert good("cat", f"{ext4}:/open").out == "open"


def test_it_outlives_its_terminal_if_asked_to(work, ext4):
    directory = f"{work}/place"
    os.mkdir(directory)
    keeper = subprocess.Popen(["nohup", *program.command("mount"), "-f", ext4, directory],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until_mounted(directory)
    keeper.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1)
    good("umount", directory)
    assert keeper.wait(60) == 0


def test_who_started_it_keeps_what_is_open(work, ext4):
    """Locks of a script end with the script; the server has nothing of it."""
    with open(f"{work}/secret", "wb") as secret:
        fcntl.flock(secret, fcntl.LOCK_EX)
        os.set_inheritable(secret.fileno(), True)
        directory = f"{work}/place"
        os.mkdir(directory)
        subprocess.run([*program.command("mount"), ext4, directory], close_fds=False, check=True)
    try:
        server = server_of(ext4)
        opened = [os.readlink(f"/proc/{server}/fd/{number}")
                  for number in os.listdir(f"/proc/{server}/fd")]
        assert ext4 in opened and f"{work}/secret" not in opened
        with open(f"{work}/secret", "rb") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        good("umount", directory)


def stopped_once_it_has_a_child(*words):
    """A command of ours, stopped just after it has started its first process. None: it has ended
    before.
    """
    command = subprocess.Popen(["env", "--default-signal", *program.command(*words)],
                               start_new_session=True)
    with open(f"/proc/{command.pid}/task/{command.pid}/children", encoding="ascii") as children:
        with contextlib.suppress(ProcessLookupError):
            while command.poll() is None and not children.read():
                children.seek(0)
    command.send_signal(signal.SIGSTOP)
    return command if command.poll() is None else None


def test_an_interrupted_command_leaves_no_mount(work, ext4):
    """Also if all was well, but a signal ended the command before it heard so."""
    directory = f"{work}/place"
    os.mkdir(directory)
    while not (command := stopped_once_it_has_a_child("mount", ext4, directory)):
        good("umount", directory)
    wait_until_mounted(directory)
    os.listdir(directory)
    time.sleep(0.5)
    os.killpg(command.pid, signal.SIGINT)
    command.send_signal(signal.SIGCONT)
    assert command.wait(60) == -signal.SIGINT
    wait_until_unserved(ext4)
    assert not is_mounted(directory)
    check(ext4, "ext4")


def error_of_listing(directory):
    try:
        os.listdir(directory)
    except OSError as error:
        return error.errno
    return 0


def test_a_crash_costs_the_server_alone(ext4, work):
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", ext4, directory)
    with open(f"{directory}/safe", "wb") as stream:
        stream.write(b"safe")
        stream.flush()
        os.fsync(stream.fileno())
    server = server_of(ext4)
    os.kill(server, signal.SIGKILL)
    assert wait_until(lambda: error_of_listing(directory), "the mount has lost its server") in (
        107, 103)
    bad("umount", directory, mentions=("the server of this mount ended before",))
    assert not mounts.is_mounted(directory)
    with mounted(ext4) as again:
        assert open(f"{again}/safe", "rb").read() == b"safe"
    check(ext4, "ext4")


def sync(directory):
    """Syncs as `sync DIRECTORY` does."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_sync_of_the_directory_writes_everything(ext4, work):
    """Data of files that nobody synced is in the image after the server was killed."""
    directory, noise = f"{work}/place", os.urandom(MEGABYTE)
    os.mkdir(directory)
    good("mount", ext4, directory)
    os.makedirs(f"{directory}/a/b")
    with open(f"{directory}/a/b/file", "wb") as stream:
        stream.write(noise)
    server = server_of(ext4)
    sync(directory)
    os.kill(server, signal.SIGKILL)
    host.run("umount", "-l", directory)
    found = good("cat", f"{ext4}:/a/b/file", notes=["without replaying its journal"])
    assert (found.raw == noise) is True
    check(ext4, "ext4")


# The head of the block of jbd2 that ends a transaction: magic number, type.
JOURNALS_COMMIT = bytes.fromhex("c03b3998 00000002")


def hexadecimal(data):
    """As strace -xx shows data."""
    return "".join(f"\\x{byte:02x}" for byte in data)


@pytest.mark.needs("strace")
def test_sync_of_the_directory_reaches_the_disk(work, ext4):
    """The data, then the journal's commit, then a flush, before the call returns. Later writes are
    the kernel's own business.
    """
    log = f"{work}/trace"
    with mounted(ext4) as directory:
        server = server_of(ext4)
        with subprocess.Popen(["strace", "-f", "-y", "-xx", "-s", "12", "-ttt", "-o", log,
                               "-e", "trace=pwrite64,pwritev,pwritev2,fsync,fdatasync",
                               "-p", str(server)],
                              stderr=subprocess.PIPE, text=True) as tracer:
            if "attached" not in tracer.stderr.readline():
                pytest.skip("this host does not let strace trace")
            with open(f"{directory}/file", "wb") as stream:
                stream.write(b"x" * MEGABYTE)
            sync(directory)
            returned = time.time()
            tracer.send_signal(signal.SIGINT)
            tracer.stderr.read()
    with open(log, encoding="utf-8") as lines:
        calls = [line for line in lines
                 if "<" + hexadecimal(os.fsencode(ext4)) + ">" in line or f"<{ext4}>" in line]
    calls = [call for call in calls if float(call.split()[1]) < returned]
    last_data = max((number for number, call in enumerate(calls) if hexadecimal(b"x" * 12) in call),
                    default=None)
    assert last_data is not None, calls[-5:]
    after = iter(calls[last_data + 1:])
    assert any(hexadecimal(JOURNALS_COMMIT) in call for call in after), calls[last_data:]
    assert any("sync(" in call for call in after), calls[last_data:]


@pytest.mark.parametrize("end", ["kill", "panic"])
def test_restart(ext4, work, end):
    """After a crash later than ten seconds after the mount: by a signal, or by a driver that makes
    the kernel panic.
    """
    directory, drivers = f"{work}/place", f"{work}/drivers"
    os.mkdir(directory)
    options = []
    if end == "panic":
        os.mkdir(drivers)
        modules.build(os.path.join(program.REPOSITORY, "tests", "program", "sandbox"), drivers)
        options = ["--component", f"{drivers}/doom.ko"]
    good("mount", "--restart", *options, ext4, directory)
    with open(f"{directory}/safe", "wb") as stream:
        os.fsync(stream.fileno())
    server = server_of(ext4)
    if end == "kill":
        time.sleep(10.5)
        os.kill(server, signal.SIGKILL)
    wait_until(lambda: servers(ext4) not in ([], [server]), "a new process serves the image")
    wait_until(lambda: os.path.exists(f"{directory}/safe"), "the mount answers again")
    with open(f"{directory}/after", "wb") as stream:
        os.fsync(stream.fileno())
    good("umount", directory)
    check(ext4, "ext4")


# Linux's btrfs knows nothing of the kind for directories.
@pytest.mark.parametrize("option, kind", [
    ("sync", "btrfs"), *itertools.product(("sync", "dirsync"), ("ext4", "xfs", "vfat", "exfat"))])
def test_what_was_written_synchronously_outlives_the_server(work, kind, option):
    """`sync`: contents as well; `dirsync`: names."""
    path, directory = images.make(f"{work}/disk.img", kind, 512), f"{work}/place"
    os.mkdir(directory)
    good("mount", "-o", option, path, directory)
    data = b"x" * 100_000
    file = os.open(f"{directory}/file", os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, data)
        os.mkdir(f"{directory}/new")
        server = server_of(path)
        os.kill(server, signal.SIGKILL)
        wait_until_unserved(path)
    finally:
        # The host cannot hand over the data in its writeback cache.
        with contextlib.suppress(OSError):
            os.close(file)
    bad("umount", directory, mentions=("the server of this mount ended before",))
    # It replays the journal.
    good("sync", f"{path}:/")
    names = good("ls", f"{path}:/").out.split()
    assert "file" in names and ("new" in names or kind == "btrfs"), names
    if option == "sync":
        assert good("cat", f"{path}:/file").raw == data


def below(work):
    """A directory that holds an image, its base, the home directory and a further disk."""
    directory = f"{work}/place"
    os.makedirs(f"{directory}/sub/home")
    return directory


@pytest.mark.parametrize("option", ["rw", "ro"])
@pytest.mark.parametrize("where", [".", "sub"])
def test_onto_the_directory_that_holds_the_image(work, where, option):
    """And the cache of snapshots, which the first start writes and later ones read."""
    directory = below(work)
    image = images.make(f"{directory}/{where}/disk.img", "ext4", 50)
    words = ("-o", option, image, directory)
    for _ in range(2):
        good("mount", *words, HOME=f"{directory}/sub/home", XDG_CACHE_HOME="", timeout=60)
        assert os.listdir(directory) == ["lost+found"]
        if option == "rw":
            open(f"{directory}/file", "wb").close()
            os.unlink(f"{directory}/file")
        good("umount", directory, timeout=60)
    assert os.path.isdir(f"{directory}/sub/home/.cache/outboard")
    check(image, "ext4")


@pytest.mark.needs("qemu-img")
def test_all_that_an_image_consists_of_may_be_below(work):
    """A backing file, a further disk, a key file: the server opens them before it mounts."""
    directory = below(work)
    images.make(f"{directory}/base.img", "ext4", 50)
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "base.img",
             "-F", "raw", f"{directory}/top.qcow2")
    images.make(f"{directory}/other.img", "ext4", 50)
    with open(f"{directory}/key", "wb") as stream:
        stream.write(b"key")
    good("mount", "--disk", f"{directory}/other.img", "--key-file", f"{directory}/key",
         f"{directory}/top.qcow2", directory, timeout=60)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept")
    good("umount", directory, timeout=60)
    assert good("cat", f"{directory}/top.qcow2:/file").out == "kept"


def test_a_restart_finds_an_image_below_its_mount(work):
    directory = below(work)
    image = images.make(f"{directory}/disk.img", "ext4", 50)
    good("mount", "--restart", image, directory, timeout=60)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept")
        stream.flush()
        os.fsync(stream.fileno())
    server = server_of(image)
    # One that crashes sooner is not started again.
    time.sleep(10.5)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: os.path.exists(f"{directory}/file"), "the mount answers again")
    assert open(f"{directory}/file", "rb").read() == b"kept"
    good("umount", directory, timeout=60)
    check(image, "ext4")


@pytest.mark.needs("strace")
def test_waiting_for_the_server_of_the_last_mount_takes_no_work(work, ext4):
    """The next mount sleeps until that server ends, and does not look at all processes meanwhile.
    """
    directory, other, trace = f"{work}/place", f"{work}/other", f"{work}/trace"
    os.mkdir(directory)
    os.mkdir(other)
    good("mount", ext4, directory)
    server = server_of(ext4)
    os.kill(server, signal.SIGSTOP)
    try:
        host.run("umount", "-l", directory)
        second = subprocess.Popen(["strace", "-f", "-o", trace, "-e", "trace=openat,pidfd_open",
                                   *program.command("mount", ext4, other)],
                                  stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        assert second.poll() is None
        with open(trace, encoding="utf-8", errors="replace") as lines:
            looks = sum('"/proc", ' in line for line in lines)
    finally:
        os.kill(server, signal.SIGCONT)
    # strace follows the keeper and the server, and ends with them.
    wait_until_mounted(other)
    good("umount", other)
    _, errors = second.communicate(timeout=30)
    assert second.returncode == 0 and "waiting for the server of its last mount" in errors, errors
    assert looks <= 10, looks


def test_ps_shows_the_program(work, ext4):
    """Both processes of a mount are called outboard, in ps and in killall."""
    with mounted(ext4):
        server = server_of(ext4)
        (keeper,) = {int(line.split()[1])
                     for line in open(f"/proc/{server}/status", encoding="ascii")
                     if line.startswith("PPid:")}
        for process in (server, keeper):
            name, words = (host.run("ps", "-o", f"{column}=", "-p", str(process)).stdout.strip()
                           for column in ("comm", "args"))
            assert name == "outboard" and words.startswith("outboard mount --role"), (name, words)
