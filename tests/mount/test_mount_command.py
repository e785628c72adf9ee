# SPDX-License-Identifier: GPL-2.0-only
"""The commands `outboard mount` and `outboard umount`: what they take, refuse and say, by
themselves and for mount(8) and fstab.
"""

import contextlib
import glob
import os
import signal
import subprocess
import time

import pytest

from support import host, images, mounts, program
from support.images import MEGABYTE
from support.mounts import (AS_NOBODY, NOBODY, check, is_mounted, mounted, server_of,
                            wait_until_unserved)
from support.program import good, run

pytestmark = mounts.MARKS


def test_read_only_changes_no_byte(ext4):
    before = open(ext4, "rb").read()
    with mounted(ext4, "-o", "ro") as directory:
        with pytest.raises(OSError):
            os.mkdir(f"{directory}/new")
        os.listdir(directory)
    assert open(ext4, "rb").read() == before


@pytest.mark.needs("mksquashfs")
def test_what_cannot_be_written_is_read_only(work):
    host.run("mksquashfs", "/usr/share/zoneinfo/Europe", f"{work}/packed.img",
             "-quiet", "-no-progress")
    with mounted(f"{work}/packed.img") as directory:
        host.run("diff", "-r", "--no-dereference", "/usr/share/zoneinfo/Europe", directory)
        assert os.statvfs(directory).f_flag & os.ST_RDONLY


def test_what_is_wrong_is_told_at_once(work, ext4):
    os.mkdir(f"{work}/empty")
    open(f"{work}/text", "wb").write(b"no file system" * 1000)
    for words, code, part in (
            ((ext4, f"{work}/nowhere"), 1, "nowhere"),
            ((f"{work}/text", f"{work}/empty"), 1, "text"),
            ((f"{work}/none", f"{work}/empty"), 1, "none"),
            (("-o", "what", ext4, f"{work}/empty"), 2, "what"),
            (("--type", "xfs", ext4, f"{work}/empty"), 1, "xfs")):
        done = run("mount", *words)
        assert done.code == code and part in done.err, str(done)
        assert not is_mounted(f"{work}/empty")
    with mounted(ext4):
        second = run("mount", ext4, f"{work}/empty")
        assert second.code == 1 and "in use" in second.err, str(second)
        assert not is_mounted(f"{work}/empty")
    assert run("umount", f"{work}/empty").code == 1


@pytest.mark.needs("fusermount3", "setpriv", "qemu-img")
@pytest.mark.usefixtures("fuse_for_all")
@pytest.mark.parametrize("kind", ["raw", "vmdk"])
def test_what_may_not_be_written_is_read_only(work, ext4, kind):
    """Whether by the file's mode or by its format; with a warning, as mount(8) does it."""
    path, directory = ext4, f"{work}/place"
    if kind == "vmdk":
        path = f"{work}/disk.vmdk"
        host.run("qemu-img", "convert", "-f", "raw", "-O", "vmdk", ext4, path)
    os.chmod(path, 0o444 if kind == "raw" else 0o666)
    os.mkdir(directory)
    os.chown(directory, NOBODY, NOBODY)
    refused = run("mount", "-o", "rw", path, directory, prefix=AS_NOBODY)
    assert refused.code == 1, str(refused)
    assert "cannot write to image" in refused.err, str(refused)
    assert not is_mounted(directory), str(refused)
    done = good("mount", path, directory, prefix=AS_NOBODY, notes=["mounted read-only"])
    try:
        assert "mounted read-only" in done.err, str(done)
        with open("/proc/self/mountinfo", encoding="utf-8") as lines:
            assert any(f" {directory} ro," in line for line in lines)
        host.run(*AS_NOBODY, "ls", directory)
    finally:
        good("umount", directory, prefix=AS_NOBODY)


@pytest.mark.needs("fusermount3", "setpriv")
@pytest.mark.usefixtures("fuse_for_all")
def test_a_user_mounts_once_on_a_directory(work, ext4):
    other = images.make(f"{work}/other.img", "ext4", 50)
    for path in (ext4, other):
        os.chown(path, NOBODY, NOBODY)
    with mounted(ext4, prefix=AS_NOBODY) as directory:
        for path in (ext4, other):
            done = run("mount", path, directory, prefix=AS_NOBODY)
            assert done.code == 1, str(done)
            assert "mounted there already" in done.err, str(done)
            assert ext4 in done.err, str(done)
    with mounted(ext4) as directory:
        done = run("mount", other, directory, prefix=AS_NOBODY)
        assert done.code == 1 and "mounted there already" in done.err, str(done)


def test_words_of_fstab(ext4):
    words = ("defaults,silent,loud,mand,nomand,iversion,noiversion,lazytime,nolazytime,norelatime,"
             "nostrictatime,sync,async,dirsync")
    with mounted(ext4, "-o", words) as directory:
        open(f"{directory}/file", "wb").close()
    for word in ("strictatime", "uid=4294967295", "gid=4294967295"):
        assert run("mount", "-o", word, ext4, "/mnt").code == 2


def test_in_use(ext4):
    with mounted(ext4) as directory, open(f"{directory}/file", "wb"):
        busy = run("umount", directory)
        assert busy.code == 1 and "busy" in busy.err.lower(), str(busy)


def test_lazy(work, ext4):
    """A mount in use goes at once; its server ends with the last open file."""
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", ext4, directory)
    with open(f"{directory}/file", "wb") as stream:
        good("umount", "--lazy", directory)
        assert not is_mounted(directory)
        stream.write(b"written late")
    mounts.wait_until_unserved(ext4)
    assert good("cat", f"{ext4}:/file").raw == b"written late"


def wait_until_it_sleeps(process):
    """As a program does between two tries; or until the process has ended."""
    clock_nanosleep = "230 "
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        for name in glob.glob(f"/proc/{process.pid}/task/*/syscall"):
            with contextlib.suppress(OSError), open(name, encoding="ascii") as stream:
                if stream.read().startswith(clock_nanosleep):
                    return
        time.sleep(0.005)


@contextlib.contextmanager
def copy_in_use(directory):
    """A process that uses the copy of a mount which it got with a mount namespace of its own."""
    words = ("unshare", "--mount", "--propagation", "unchanged", "sh",
             "-c", 'cd "$1" && echo ready && read -r end', "sh", directory)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()


@pytest.mark.needs("fusermount3", "setpriv")
@pytest.mark.usefixtures("fuse_for_all")
@pytest.mark.parametrize("prefix", [(), AS_NOBODY], ids=["root", "user"])
def test_a_mount_that_is_busy_for_a_moment(work, ext4, prefix):
    """Each program that makes a mount namespace has a copy of the mount for a moment: umount waits
    for it.
    """
    directory = f"{work}/place"
    os.mkdir(directory)
    for path in (ext4, directory):
        os.chown(path, NOBODY, NOBODY)
    host.run("mount", "--bind", work, work)
    host.run("mount", "--make-shared", work)
    try:
        good("mount", "-o", "allow_other" if not prefix else "rw", ext4, directory, prefix=prefix)
        with copy_in_use(directory) if not prefix else open_in_use(directory) as user:
            umount = subprocess.Popen([*prefix, *program.command("umount", directory)],
                                      stderr=subprocess.PIPE, text=True)
            wait_until_it_sleeps(umount)
            assert umount.poll() is None, umount.communicate()[1]
            user.stdin.write("end\n")
            user.stdin.flush()
            said = umount.communicate(timeout=120)[1]
            assert umount.returncode == 0, said
        assert not is_mounted(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=False, stderr=subprocess.DEVNULL)
        host.run("umount", "-l", work)


@contextlib.contextmanager
def open_in_use(directory):
    """The user's own process in the mount: root may not look into it."""
    words = (*AS_NOBODY, "sh", "-c", 'cd "$1" && echo ready && read -r end', "sh", directory)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()


@pytest.mark.kernel_reports("its disk fails")
def test_what_was_lost_is_told_each_time(work):
    """A sparse image in a file system that is too small for what is written."""
    small, directory = f"{work}/small", f"{work}/place"
    os.mkdir(small)
    os.mkdir(directory)
    host.run("mount", "-t", "tmpfs", "-o", "size=8M", "none", small)
    try:
        image = images.make(f"{small}/disk.img", "ext4", 100)
        good("mount", image, directory)
        with open(f"{directory}/large", "wb") as stream, contextlib.suppress(OSError):
            stream.write(os.urandom(30 * MEGABYTE))
        with open(f"{directory}/large", "rb"):
            first = run("umount", directory)
            assert first.code == 1 and "not everything was written" in first.err, str(first)
        second = run("umount", directory)
        assert second.code == 1 and "not everything was written" in second.err, str(second)
        assert not is_mounted(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=False, stderr=subprocess.DEVNULL)
        host.run("umount", "-l", small)


@pytest.mark.parametrize("option", ["rw", "ro"])
def test_a_mount_waits_for_the_server_before_it(work, ext4, option):
    """The host's umount(8) does not wait until the server has written everything and let go of the
    image.
    """
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", ext4, directory)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept" * 1000)
        stream.flush()
        os.fsync(stream.fileno())
    server = server_of(ext4)
    os.kill(server, signal.SIGSTOP)
    try:
        host.run("umount", "-l", directory)
        second = subprocess.Popen([*program.command("mount"), "-o", option, ext4, directory],
                                  stderr=subprocess.PIPE, text=True)
        # It says so before it waits; otherwise it has ended, and there is no line.
        said = second.stderr.readline()
        assert "waiting for the server" in said and second.poll() is None, said
    finally:
        os.kill(server, signal.SIGCONT)
    said = second.communicate(timeout=60)[1]
    assert second.returncode == 0, said
    assert open(f"{directory}/file", "rb").read() == b"kept" * 1000
    good("umount", directory)
    check(ext4, "ext4")


@pytest.mark.parametrize("name", ["outboard", "mount.fuse.outboard"])
def test_as_mount_calls_it(work, ext4, name):
    """`outboard IMAGE DIRECTORY -o OPTIONS`, as mount.fuse3 does, and as a helper of mount(8)."""
    directory, helper = f"{work}/place", f"{work}/{name}"
    os.mkdir(directory)
    os.symlink(program.PROGRAM, helper)
    host.run(helper, ext4, directory, "-o", "rw,noauto,dev,suid")
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        options = next(line for line in lines if line.split()[4] == directory)
    # Options that mount.fuse3 adds by itself do not count as the user's.
    assert ("nosuid" in options) == (name == "outboard"), options
    good("umount", directory)
    check(ext4, "ext4")


def flags_of(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.split()[4] == directory]
    return set(line.split()[5].split(","))


@pytest.mark.parametrize("helper", ["mount.fuse3", "mount.fuse.outboard"])
def test_set_user_id_and_devices_by_fstab(work, ext4, helper):
    """mount(8) keeps `suid` and `dev` to itself, and mount.fuse3 adds them: these words arrive by
    both ways.
    """
    directory = f"{work}/place"
    os.mkdir(directory)
    os.mkdir(f"{work}/bin")
    os.symlink(program.PROGRAM, f"{work}/bin/outboard")
    with open(f"{work}/fstab", "w", encoding="ascii") as stream:
        stream.write(f"{ext4} {directory} fuse.outboard noauto,allow_suid,allow_dev 0 0\n")
    if helper == "mount.fuse3":
        call = 'mount "$1/place"'
    else:
        os.symlink(program.PROGRAM, f"{work}/bin/{helper}")
        call = f'"$1/bin/{helper}" "$2" "$1/place" -o rw,allow_suid,allow_dev'
    script = f"""
        mount --bind "$1/fstab" /etc/fstab
        mount --bind "$1/bin" /usr/local/bin
        {call}
        grep " $1/place " /proc/self/mountinfo
        outboard umount "$1/place"
    """
    done = host.run("unshare", "--mount", "sh", "-euc", script, "sh", work, ext4)
    flags = done.stdout.split()[5].split(",")
    assert "nosuid" not in flags and "nodev" not in flags, done.stdout
    check(ext4, "ext4")


def test_remount(work, ext4):
    with mounted(ext4) as directory:
        with open(f"{directory}/file", "wb") as stream:
            stream.write(b"text")
        before = flags_of(directory)
        good("mount", "-o", "remount,ro", ext4, directory)
        assert flags_of(directory) == before - {"rw"} | {"ro"}
        with pytest.raises(OSError, match="Read-only"):
            os.mkdir(f"{directory}/new")
        good("mount", "-o", "remount,rw,noexec", ext4, directory)
        assert flags_of(directory) == before | {"noexec"}
        os.mkdir(f"{directory}/new")
        with open(f"{directory}/file", "ab"):
            busy = run("mount", "-o", "remount,ro", ext4, directory)
            assert busy.code == 1 and "open for writing" in busy.err, str(busy)
        refused = run("mount", "-o", "remount,uid=5", ext4, directory)
        assert refused.code == 1 and "uid cannot change" in refused.err, str(refused)
    with mounted(ext4, "-o", "ro") as directory:
        refused = run("mount", "-o", "remount,rw", ext4, directory)
        assert refused.code == 1 and "read-only" in refused.err, str(refused)
    nothing = run("mount", "-o", "remount,ro", ext4, work)
    assert nothing.code == 1 and "no mount of outboard" in nothing.err, str(nothing)
    check(ext4, "ext4")


@pytest.mark.needs("mount.fuse3")
def test_remount_by_mount(work, ext4):
    """mount(8) repeats the options that it finds in the table of mounts."""
    for name in ("place", "bin"):
        os.mkdir(f"{work}/{name}")
    os.symlink(program.PROGRAM, f"{work}/bin/outboard")
    script = """
        mount --bind "$1/bin" /usr/local/bin
        mount -t fuse.outboard "$2" "$1/place" -o allow_other,sync
        mount -o remount,ro "$1/place"
        grep " $1/place fuse.outboard ro," /proc/self/mounts
        ! mkdir "$1/place/new"
        mount -o remount,rw "$1/place"
        grep " $1/place fuse.outboard rw," /proc/self/mounts
        mkdir "$1/place/new"
        outboard umount "$1/place"
    """
    host.run("unshare", "--mount", "sh", "-euc", script, "sh", work, ext4)
    check(ext4, "ext4")


@pytest.mark.needs("mount.fuse3")
def test_fstab(work, ext4):
    """Lines of fstab, in a mount namespace with an fstab of its own: `mount DIRECTORY`, `mount -a`,
    `umount DIRECTORY`.
    """
    first, second, bin_directory = f"{work}/first", f"{work}/second", f"{work}/bin"
    for name in (first, second, bin_directory):
        os.mkdir(name)
    os.symlink(program.PROGRAM, f"{bin_directory}/outboard")
    disk = images.partitioned(f"{work}/gpt.img", "label: gpt\nstart=2048, size=131072\n",
                              {2048: images.make(f"{work}/part.img", "ext4", 64)}, 80)
    with open(f"{work}/fstab", "w", encoding="ascii") as stream:
        stream.write(
            f"{ext4} {first} fuse.outboard noauto,nofail,x-systemd.automount,allow_other 0 0\n"
            f"{disk}@1 {second} fuse.outboard ro,noatime 0 0\n")
    script = """
        mount --bind "$1/fstab" /etc/fstab
        mount --bind "$1/bin" /usr/local/bin
        mount "$1/first"
        grep " $1/first fuse.outboard rw," /proc/self/mounts
        echo text > "$1/first/file"
        ! mountpoint -q "$1/second"
        umount "$1/first"
        mount -a
        ! mountpoint -q "$1/first"
        grep " $1/second fuse.outboard ro," /proc/self/mounts
        umount "$1/second"
        # After the host's umount the server has a moment's work left: this waits for it.
        mount "$1/first"
        cat "$1/first/file"
        umount "$1/first"
    """
    done = host.run("unshare", "--mount", "sh", "-euc", script, "sh", work, timeout=60)
    assert done.stdout.splitlines()[-1] == "text"
    wait_until_unserved(ext4)
    check(ext4, "ext4")
