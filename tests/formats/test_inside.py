# SPDX-License-Identifier: GPL-2.0-only
"""
mkfs, fsck, resize and part in images of other formats than raw, and inside of layers: what they
have done is taken out of the image by qemu-img, and looked at by the types' own checkers. (Logical
volumes of LVM: test_volumes.py.)
"""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from support import host, images
from support.checkers import DAMAGE, FSCK
from support.images import MEGABYTE, contents
from support.json_output import document
from support.pairs import pairs
from support.program import bad, command, good, run

pytestmark = [pytest.mark.needs("qemu-img"),
              pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")]

KEY = b"a key\nof two lines\n"
SECRET = ("--object", f"secret,id=key,format=base64,data={base64.b64encode(KEY).decode()}")
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


class Place:
    """Where a file system is, as outboard names it: `words` stand before the command, `name` is the
    operand.
    """

    def __init__(self, work, plain):
        self.work = work
        self.file = self.name = f"{work}/image"
        self.words = []
        self.make(plain)

    def well(self):
        host.run("qemu-img", "check", self.file)

    def plain(self):
        """A raw copy of its contents."""
        target = f"{self.work}/taken"
        host.run("qemu-img", "convert", "-O", "raw", self.file, target)
        return target


class Qcow2(Place):
    def make(self, plain):
        host.run("qemu-img", "convert", "-O", "qcow2", plain, self.file)


class Backing(Place):
    """A partition of an image that is based on another one, which must not change."""

    def make(self, plain):
        self.size = os.path.getsize(plain)
        self.base = images.partitioned(f"{self.work}/base",
                                       f"label: gpt\nstart=2048, size={self.size // 512}\n",
                                       {2048: plain},
                                       self.size // MEGABYTE + 2)
        self.before = contents(self.base)
        host.run("qemu-img", "create", "-f", "qcow2", "-b", self.base, "-F", "raw", self.file)
        self.name += "@1"

    def well(self):
        super().well()
        assert contents(self.base) == self.before, "the backing file has changed"

    def plain(self):
        whole, target = super().plain(), f"{self.work}/part"
        size = json.loads(host.run("sfdisk", "--json",
                                   whole).stdout)["partitiontable"]["partitions"][0]["size"]
        host.run("dd", f"if={whole}", f"of={target}", "bs=512", "skip=2048",
                 f"count={size}", "conv=sparse", "status=none")
        return target


class Luks(Place):
    def make(self, plain):
        host.run("qemu-img", "convert", "-O", "luks", *SECRET, "-o", "key-secret=key,iter-time=10",
                 plain, self.file)
        with open(f"{self.work}/key", "wb") as stream:
            stream.write(KEY)
        self.words = ["--key-file", f"{self.work}/key"]

    def well(self):
        pass

    def plain(self):
        target = f"{self.work}/taken"
        host.run("qemu-img", "convert", *SECRET, "--image-opts",
                 f"driver=luks,key-secret=key,file.filename={self.file}", "-O", "raw", target)
        return target


PLACES = {"qcow2": Qcow2, "backing": Backing, "luks": Luks}


def fill(work, name, words=()):
    """Copies a few files in."""
    tree = images.write_few_files(f"{work}/tree")
    run(*words, "cp", "-r", f"{tree}/.", f"{name}:/")
    same(work, name, words)


def same(work, name, words=()):
    assert (contents(f"{work}/tree/noise")
            == hashlib.sha256(good(*words, "cat", f"{name}:/noise").raw).hexdigest())
    assert good(*words, "cat", f"{name}:/d/19").out == "19" * 1000


def mounts(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return [line for line in lines if f" {directory}/outboard-" in line]


# ---- fsck ----

@pytest.mark.parametrize("where,kind", pairs(PLACES, DAMAGE, "qcow2", "ext4"))
def test_fsck_repairs(work, kind, where):
    plain = f"{work}/plain"
    good("mkfs", kind, plain, "--size", "320M" if kind == "xfs" else "48M")
    fill(work, plain)
    DAMAGE[kind](plain)
    place = PLACES[where](work, plain)
    before = contents(place.file)
    looked = run(*place.words, "fsck", place.name)
    assert looked.code == 4 and "-y" in looked.err, str(looked)
    assert place.name in looked.out + looked.err and "/volume" not in looked.out, str(looked)
    bad(*place.words, "--ro", "fsck", "-y", place.name, code=8, mentions=["--ro"])
    assert contents(place.file) == before, "nothing was to change yet"
    mended = run(*place.words, "fsck", "-y", place.name)
    assert mended.code == 1, str(mended)
    assert run(*place.words, "fsck", place.name).code == 0
    place.well()
    host.run(*FSCK[kind], place.plain())


def test_fsck_of_an_image_in_use(work):
    place = Qcow2(work, images.make(f"{work}/x", "ext4", 64))
    bad("fsck", "-y", place.name, code=8, mentions=["in use"], prefix=("flock", "-n", place.file))
    assert run("fsck", place.name).code == 0


def test_formats_that_are_only_read(work):
    plain = images.make(f"{work}/x", "ext4", 64)
    image = f"{work}/x.vmdk"
    host.run("qemu-img", "convert", "-O", "vmdk", plain, image)
    assert run("fsck", image).code == 0
    bad("fsck", "-y", image, code=8, mentions=["vmdk", "only be read", "qemu-img convert"])
    bad("resize", image, "--max", mentions=["vmdk", "only be read"])
    bad("mkfs", "--force", "ext4", image, mentions=["vmdk", "only be read"])


def test_a_wrong_key(work):
    place = Luks(work, images.make(f"{work}/x", "ext4", 64))
    with open(f"{work}/key", "wb") as stream:
        stream.write(b"another")
    bad(*place.words, "fsck", place.name, code=8, mentions=["key"])
    bad("fsck", place.name, code=8, mentions=["--key-file"])


# ---- what is interrupted ----

def sleepy(work):
    """A directory with an e2fsck that tells that it runs, and ends when there is a file `go` beside
    it.
    """
    os.makedirs(f"{work}/bin", exist_ok=True)
    with open(f"{work}/bin/e2fsck", "w", encoding="ascii") as stream:
        stream.write("#!/usr/bin/python3\nimport sys, time\nopen(sys.argv[3], 'rb').read(4096)\n"
                     "print('running', flush=True)\nimport os\n"
                     f"while not os.path.exists('{work}/bin/go'): time.sleep(0.05)\n")
    os.chmod(f"{work}/bin/e2fsck", 0o755)
    return f"{work}/bin"


def wait_for_end_of_group(group):
    """Processes that were killed have their files open until they have ended."""
    deadline = time.monotonic() + 300
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.01)


@pytest.mark.needs_root
@pytest.mark.parametrize("by", [(), NOBODY], ids=["root", "a user"])
@pytest.mark.parametrize("with_what", [signal.SIGKILL, signal.SIGINT], ids=["kill", "interrupt"])
def test_nothing_is_left_behind(work, by, with_what):
    place = Qcow2(work, images.make(f"{work}/x", "ext4", 64))
    before = contents(place.file)
    os.chmod(work, 0o755)
    shutil.chown(place.file, "nobody", "nogroup")
    here = f"{work}/tmp"
    os.mkdir(here)
    os.chmod(here, 0o1777)
    with subprocess.Popen([*by, *command("fsck", "-y", place.name)], stdout=subprocess.PIPE,
                          start_new_session=True,
                          env={**os.environ, "PATH": f"{sleepy(work)}:{os.environ['PATH']}",
                               "TMPDIR": here, "XDG_CACHE_HOME": here}) as process:
        assert process.stdout.readline() == b"running\n"
        assert not mounts(here), "the mount is in a namespace of its own"
        if with_what == signal.SIGKILL:
            process.kill()
            assert process.wait(30) == -signal.SIGKILL
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.killpg(process.pid, with_what)
            # The tool works in the image itself: it is waited for.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            with open(f"{work}/bin/go", "wb"):
                pass
            assert process.wait(60) == 130
    wait_for_end_of_group(process.pid)
    assert not mounts(here)
    assert contents(place.file) == before
    assert run("fsck", "-y", place.name).code in (0, 1)


@contextlib.contextmanager
def host_without_name_spaces():
    """The words before a command that have it run, as nobody, where users get no namespaces."""
    with subprocess.Popen(["unshare", "--user", "--mount", "sh", "-c",
                           "echo ready; exec sleep 600"], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"ready\n"
            for kind in ("uid", "gid"):
                with open(f"/proc/{holder.pid}/{kind}_map", "w", encoding="ascii") as stream:
                    stream.write("0 0 65536")
            enter = ("nsenter", f"--target={holder.pid}", "--user", "--mount", "--")
            host.run(*enter, "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces")
            host.run(*enter, *NOBODY, "unshare", "--user", "true", ok=(1,))
            yield (*enter, *NOBODY)
        finally:
            holder.kill()


def seen_mounts(prefix, directory):
    return [line for line in host.run(*prefix, "cat", "/proc/self/mountinfo").stdout.splitlines()
            if f" {directory}/outboard-" in line]


def for_nobody(work, place):
    """Gives nobody the image and a directory for temporary files, and returns the variables that
    name that.
    """
    here = f"{work}/tmp"
    os.mkdir(here)
    for path in (work, place.file, here):
        shutil.chown(path, "nobody", "nogroup")
    return {"TMPDIR": here, "XDG_CACHE_HOME": here}


def helper_that_tells(work):
    """A directory with a fusermount3 that notes how it is called, and is the real one then."""
    os.makedirs(f"{work}/bin", exist_ok=True)
    with open(f"{work}/bin/fusermount3", "w", encoding="ascii") as stream:
        stream.write(f'#!/bin/sh\necho "$*" >> {work}/calls\n'
                     f'exec {shutil.which("fusermount3", path=host.PATH)} "$@"\n')
    os.chmod(f"{work}/bin/fusermount3", 0o755)
    host.run("install", "-m", "666", "/dev/null", f"{work}/calls")
    return f"{work}/bin:{host.PATH}"


@pytest.mark.needs_root
@pytest.mark.needs("fusermount3", "nsenter", "setpriv", "unshare")
@pytest.mark.usefixtures("fuse_for_all")
def test_a_host_without_name_spaces_for_users(work):
    """fusermount3 makes and ends the mounts."""
    place = Backing(work, images.make(f"{work}/x", "ext4", 64))
    variables = {"PATH": helper_that_tells(work), **for_nobody(work, place)}
    here = variables["TMPDIR"]
    with host_without_name_spaces() as prefix:
        for number, words in enumerate((("fsck", "-y", place.name), ("resize", place.name, "+16M"),
                                        ("mkfs", "--force", "ext4", place.name))):
            done = run(*words, prefix=prefix, **variables)
            assert done.code == 0, str(done)
            with open(f"{work}/calls", encoding="utf-8") as lines:
                calls = lines.read()
            assert calls.count("fsname=outboard") > number, calls
            assert calls.count("-u -z --") > number, calls
            assert not seen_mounts(prefix, here)
            assert not [name for name in os.listdir(here) if name.startswith("outboard-")]
    place.well()
    host.run(*FSCK["ext4"], place.plain())


@pytest.mark.needs_root
@pytest.mark.needs("fusermount3", "nsenter", "setpriv", "unshare")
@pytest.mark.usefixtures("fuse_for_all")
def test_who_is_killed_without_name_spaces_leaves_no_mount(work):
    place = Qcow2(work, images.make(f"{work}/x", "ext4", 64))
    variables = for_nobody(work, place)
    here = variables["TMPDIR"]
    with host_without_name_spaces() as prefix:
        with subprocess.Popen([*prefix, *command("fsck", "-y", place.name)],
                              stdout=subprocess.PIPE, start_new_session=True,
                              env={**os.environ, **variables,
                                   "PATH": f"{sleepy(work)}:{host.PATH}"}) as process:
            assert process.stdout.readline() == b"running\n"
            assert seen_mounts(prefix, here)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        wait_for_end_of_group(process.pid)
        deadline = time.monotonic() + 300
        while seen_mounts(prefix, here) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not seen_mounts(prefix, here)
    assert run("fsck", "-y", place.name).code in (0, 1)


@pytest.mark.needs_root
def test_a_host_without_fuse(work):
    place = Qcow2(work, images.make(f"{work}/x", "ext4", 64))
    hidden = ("unshare", "-m", "sh", "-c",
              'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"', "sh")
    bad("fsck", place.name, code=8, mentions=["FUSE", "/dev/fuse", "container"], prefix=hidden)
    good("mkfs", "--force", "ext4", place.name, prefix=hidden)
    assert run("fsck", place.name).code == 0


# ---- mkfs ----

@pytest.mark.parametrize("where,kind", pairs(PLACES, ["ext4", "xfs", "btrfs", "vfat"],
                                             "qcow2", "ext4"))
def test_mkfs(work, kind, where):
    megabytes = 320 if kind == "xfs" else 128
    # Old data must be gone where the new file system has nothing.
    place = PLACES[where](work, images.write_noise(f"{work}/old", megabytes))
    if where == "qcow2":
        bad("mkfs", kind, place.name, mentions=["exists", "--force"])
        good("mkfs", "--force", kind, place.name)
    else:
        good(*place.words, "mkfs", kind, place.name)
        bad(*place.words, "mkfs", kind, place.name, mentions=[kind, "--force"])
    fill(work, place.name, place.words)
    assert run(*place.words, "fsck", place.name).code == 0
    place.well()
    taken = place.plain()
    assert os.path.getsize(taken) == megabytes * MEGABYTE
    host.run(*FSCK[kind], taken)


def test_mkfs_and_the_encryption_around(work):
    place = Luks(work, images.write_noise(f"{work}/old", 48))
    before = contents(place.file)
    bad("mkfs", "ext4", place.name, mentions=["exists"])
    assert contents(place.file) == before
    good(*place.words, "mkfs", "ext4", place.name)
    told = document(good(*place.words, "info", "--json", place.file))["disk"]
    assert "crypto_LUKS" in json.dumps(told) and "ext4" in json.dumps(told)


def test_a_new_qcow2_image(work):
    tree = f"{work}/rootfs"
    os.mkdir(tree)
    images.write_noise(f"{tree}/noise", 3)
    for name, words in (("a.qcow2", ("--size", "2G")), ("b.qcow2", ("--from", tree))):
        good("mkfs", "ext4", f"{work}/{name}", *words)
        info = json.loads(host.run("qemu-img", "info", "--output", "json", f"{work}/{name}").stdout)
        assert info["format"] == "qcow2" and info["actual-size"] < 40 * MEGABYTE, info
        host.run("qemu-img", "check", f"{work}/{name}")
        host.run("qemu-img", "convert", "-O", "raw", f"{work}/{name}", f"{work}/raw")
        host.run(*FSCK["ext4"], f"{work}/raw")
    assert hashlib.sha256(good("cat", f"{work}/b.qcow2:/noise").raw).hexdigest() == contents(
        f"{tree}/noise")
    assert os.path.getsize(f"{work}/raw") < 100 * MEGABYTE
    bad("mkfs", "ext4", f"{work}/a.qcow2", "--size", "2G", mentions=["exists", "--force"])
    good("--raw", "mkfs", "ext4", f"{work}/c.qcow2", "--size", "20M")
    host.run(*FSCK["ext4"], f"{work}/c.qcow2")


# ---- part ----

def verify(image, count):
    host.run("qemu-img", "check", image)
    raw = f"{image}.raw"
    host.run("qemu-img", "convert", "-O", "raw", image, raw)
    assert "No errors" in host.run("sfdisk", "--verify", raw).stdout
    assert len(json.loads(host.run("sfdisk", "--json", raw).stdout)["partitiontable"][
        "partitions"]) == count


def test_part(work):
    image = f"{work}/disk.qcow2"
    good("part", image, "create", "--size", "200M", "esp:32M", "linux:64M", "linux:rest")
    verify(image, 3)
    good("mkfs", "vfat", f"{image}@1")
    good("mkfs", "ext4", f"{image}@2")
    fill(work, f"{image}@2")
    good("part", image, "delete", "3")
    verify(image, 2)
    good("part", image, "add", "swap:16M", "linux:rest")
    verify(image, 4)
    bad("part", image, "add", "linux:9G", mentions=["9.0 GiB", "room for"])
    bad("--ro", "part", image, "delete", "1", mentions=["--ro"])
    same(work, f"{image}@2")
    bad("part", image, "create", "linux:rest", mentions=["exists", "--force"])
    good("part", image, "create", "--force", "linux:rest", notes=["contains a vfat signature"])
    verify(image, 1)


# ---- resize ----

@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
@pytest.mark.parametrize("where", ["qcow2", "partition"])
def test_resize_in_qcow2(work, kind, where):
    image = name = f"{work}/x.qcow2"
    if where == "qcow2":
        good("mkfs", kind, image, "--size", "320M")
    else:
        good("part", image, "create", "--size", "322M", "linux:rest")
        name += "@1"
        good("mkfs", kind, name)
    fill(work, name)
    done = run("resize", name, "+200M")
    assert done.code == 0, str(done)
    check_size(image, name, kind, 520)
    if kind == "ext4":
        good("resize", name, "160M")
        check_size(image, name, kind, 160)
    if kind == "xfs":
        bad("resize", name, "100M", mentions=["cannot shrink"])
    same(work, name)


def check_size(image, name, kind, megabytes):
    host.run("qemu-img", "check", image)
    size = (
        json.loads(host.run("qemu-img", "info", "--output", "json", image).stdout)["virtual-size"])
    assert 0 <= size - megabytes * MEGABYTE <= 4 * MEGABYTE
    assert run("fsck", name).code == 0
    raw = f"{image}.raw"
    host.run("qemu-img", "convert", "-O", "raw", image, raw)
    if name != image:
        assert "No errors" in host.run("sfdisk", "--verify", raw).stdout
    told = document(good("info", "--json", raw))["disk"]
    found = told.get("filesystem") or told["partitions"][0]["filesystem"]
    assert found["type"] == kind and abs(found["size"] - megabytes * MEGABYTE) <= 4 * MEGABYTE, told


def test_resize_inside_of_a_layer(work):
    place = Luks(work, images.make(f"{work}/x", "ext4", 256))
    fill(work, place.name, place.words)
    length = os.path.getsize(place.file)
    assert "96.0 MiB" in good(*place.words, "resize", place.name, "96M").out
    assert run(*place.words, "fsck", place.name).code == 0
    bad(*place.words, "resize", place.name, "1G", mentions=["room for 256.0 MiB"])
    assert "256.0 MiB" in good(*place.words, "resize", place.name, "--max").out
    host.run(*FSCK["ext4"], place.plain())
    same(work, place.name, place.words)
    assert os.path.getsize(place.file) == length
