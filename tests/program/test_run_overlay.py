# SPDX-License-Identifier: GPL-2.0-only
"""`outboard run --overlay`: changes of programs in a qcow2 image over the image, which stays as it
is.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import time

import pytest

from support import host, images, program, programs

PROGRAMS = ("cat", "dd", "ls", "md5sum", "mkdir", "rm", "seq", "sync", "true")

pytestmark = pytest.mark.needs("qemu-img")


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, *PROGRAMS)
    with open(os.path.join(tree, "text"), "w", encoding="ascii") as stream:
        stream.write("of the image\n")
    return tree


@pytest.fixture(scope="module", name="image")
def fixture_image(tree, tmp_path_factory):
    path = os.path.join(str(tmp_path_factory.mktemp("image")), "root.img")
    return images.make_ext4_of(path, tree)


def words(image, overlay, text):
    return program.command("run", "--overlay", overlay, image, "--", "bash", "-c", text)


def run(image, overlay, text):
    return program.run("run", "--overlay", overlay, image, "--", "bash", "-c", text)


@contextlib.contextmanager
def running(*command):
    """Yields while a program reads a line."""
    with subprocess.Popen(program.command("run", *command, "--", "bash", "-c",
                                          "echo ready; read line"),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield
        process.communicate(b"\n")
        assert process.returncode == 0


def digest(path):
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def check(overlay, work):
    """The overlay as QEMU reads it, and the file system in it. Returns its header."""
    host.run("qemu-img", "check", overlay)
    plain = os.path.join(work, "converted.img")
    host.run("qemu-img", "convert", "-O", "raw", overlay, plain)
    host.run("qemu-img", "compare", overlay, plain)
    host.run("e2fsck", "-fn", plain)
    os.unlink(plain)
    return json.loads(host.run("qemu-img", "info", "--output=json", overlay).stdout)


@pytest.mark.parametrize("kind", ("raw", "qcow2"))
def test_changes_stay_beside_the_image(image, work, kind):
    base = os.path.join(work, f"base.{kind}")
    host.run("qemu-img", "convert", "-O", kind, image, base)
    overlay = os.path.join(work, "changes")
    before = digest(base)
    done = run(base, overlay, "echo kept > /kept; rm /text; mkdir /a; exit 3")
    assert (done.code, done.err) == (3, ""), done
    done = run(base, overlay, "cat /kept; [ -e /text ] || echo removed; echo more > /a/more")
    assert (done.code, done.out) == (0, "kept\nremoved\n"), done
    assert digest(base) == before
    found = check(overlay, work)
    assert found["backing-filename"] == f"base.{kind}" and found["format"] == "qcow2"
    assert found["backing-filename-format"] == kind
    assert program.good("cat", f"{overlay}:/a/more").out == "more\n"
    assert "kept" in program.good("ls", f"{overlay}:/").out
    program.good("cp", f"{overlay}:/kept", f"{work}/copy")
    assert program.run("run", overlay, "--", "cat", "/kept").out == "kept\n"
    assert program.good("cat", f"{base}:/text").out == "of the image\n"


def test_a_partition(tree, work):
    part = images.make_ext4_of(os.path.join(work, "part.img"), tree)
    disk = images.partitioned(os.path.join(work, "disk.img"),
                              "label: gpt\nstart=2048,size=16384\nstart=18432,size=131072\n",
                              {18432: part})
    overlay = os.path.join(work, "o.qcow2")
    assert run(f"{disk}@2", overlay, "echo a > /a").code == 0
    assert program.good("cat", f"{overlay}@2:/a").out == "a\n"
    assert program.run("cat", f"{disk}@2:/a").code == 1


def test_an_overlay_elsewhere(image, work):
    os.mkdir(os.path.join(work, "sub"))
    overlay = os.path.join(work, "sub", "o.qcow2")
    base = shutil.copy(image, os.path.join(work, "base.img"))
    for count in "12":
        assert run(base, overlay, f"echo {count} >> /a").code == 0
    program.bad("cat", f"{overlay}:/a", mentions=(f"--backing {base}",))
    assert program.good("cat", "--backing", base, f"{overlay}:/a").out == "1\n2\n"


def test_what_is_no_overlay_of_the_image(image, work):
    base = shutil.copy(image, os.path.join(work, "base.img"))
    other = shutil.copy(image, os.path.join(work, "other.img"))
    host.run("qemu-img", "create", "-q", "-f", "qcow2", f"{work}/alone.qcow2", "64M")
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "other.img", "-F", "raw",
             f"{work}/of-other.qcow2")
    for name, mentions in (
            ("base.img", ("is the image itself",)),
            ("other.img", ("no qcow2 image", "another name")),
            ("alone.qcow2", ("without a backing file", "another name")),
            ("of-other.qcow2", ('over "other.img"', "another name")),
            (".", ("is a directory",)),
            ("none/o.qcow2", ("No such file",))):
        before = [digest(path) for path in (base, other)]
        done = run(base, f"{work}/{name}", "true")
        assert done.code in (2, 125) and len(done.err.splitlines()) == 1, done
        assert all(word in done.err for word in mentions), done
        assert [digest(path) for path in (base, other)] == before
    overlay = f"{work}/o.qcow2"
    assert run(base, overlay, "true").code == 0
    with open(base, "ab") as stream:
        stream.truncate(80 << 20)
    done = run(base, overlay, "true")
    assert done.code == 125 and "64.0 MiB" in done.err and "80.0 MiB" in done.err, done


@pytest.mark.parametrize("given", ((), ("-d",)))
def test_a_start_that_fails_leaves_no_overlay(image, work, given):
    """One that was there before stays, whatever happens."""
    nothing = host.sparse_file(f"{work}/nothing.img", 8 << 20)
    new, old = f"{work}/new.qcow2", f"{work}/old.qcow2"
    assert run(image, old, "echo kept > /kept").code == 0
    before = digest(old)
    for name, words, mentions in (
            (nothing, ("true",), "no file system"), (image, ("missing",), "cannot run missing")):
        for overlay in (new, old) if name == image else (new,):
            done = program.run("run", *given, "--overlay", overlay, name, "--", *words)
            assert done.code in (125, 127) and mentions in done.err, done
            assert sorted(os.listdir(work)) == ["nothing.img", "old.qcow2"], overlay
    assert digest(old) == before or run(image, old, "cat /kept").out == "kept\n"
    assert run(image, new, "exit 7").code == 7 and os.path.exists(new)


def test_an_overlay_that_another_command_uses_stays(image, work):
    """The one that made it fails, while another one has taken it."""
    overlay = f"{work}/o.qcow2"
    with running("--overlay", overlay, image):
        done = run(image, overlay, "true")
        assert done.code == 125 and "in use" in done.err, done
    assert run(image, overlay, "true").code == 0


@pytest.mark.parametrize("given", (("--rw",), ("--ro",), ("--root", "."), ("--disk", "b.img")))
def test_options_that_exclude_it(image, work, given):
    image = () if given[0] == "--root" else (image,)
    done = program.run("run", "--overlay", f"{work}/o", *given, *image, "--", "true")
    assert done.code == 2 and "cannot be used with" in done.err, done
    assert not os.path.exists(f"{work}/o")


def test_a_script_has_none(image, work):
    script = f"{work}/script"
    with open(script, "w", encoding="ascii") as stream:
        stream.write(f"run --overlay {work}/o {image} -- true\n")
    program.bad("run-script", script, mentions=("script:1", "--overlay", "run it alone"), code=2)
    assert not os.path.exists(f"{work}/o")


def test_other_formats_and_types(tree, work):
    squashfs = f"{work}/root.squashfs"
    host.run("mksquashfs", tree, squashfs, "-quiet")
    done = run(squashfs, f"{work}/o1", "true")
    assert done.code == 125 and "squashfs" in done.err and "in memory" in done.err, done
    host.run("qemu-img", "create", "-q", "-f", "vdi", f"{work}/disk.vdi", "64M")
    done = run(f"{work}/disk.vdi", f"{work}/o2", "true")
    assert done.code == 125 and "vdi" in done.err and "qemu-img convert" in done.err, done
    assert not os.path.exists(f"{work}/o2")


def test_at_the_same_time(image, work):
    """Two commands on one image, or on one overlay over it."""
    base = shutil.copy(image, os.path.join(work, "base.img"))
    one, two = f"{work}/one.qcow2", f"{work}/two.qcow2"
    assert run(base, one, "true").code == 0
    ways = {"run": (base,), "--rw": ("--rw", base), "one": ("--overlay", one, base),
            "two": ("--overlay", two, base), "top": (one,), "top --rw": ("--rw", one)}
    together = {("run", "run"), ("run", "one"), ("run", "two"), ("run", "top"), ("one", "two"),
                ("top", "two"), ("top", "top"), ("two", "top --rw"), ("run", "top --rw")}
    for first, command in ways.items():
        with running(*command):
            for second, other in ways.items():
                done = program.run("run", *other, "--", "true")
                may = (first, second) in together or (second, first) in together
                assert (done.code == 0) == may, (first, second, done)
                assert may or (done.code == 125 and "in use" in done.err), (first, second, done)
                assert may or len(done.err.splitlines()) == 1, done
    check(one, work)
    check(two, work)


@pytest.mark.needs_root
def test_no_room_on_the_host(image, work):
    """An error inside; what was reported durable before is there."""
    base = shutil.copy(image, os.path.join(work, "base.img"))
    with host.mounted("mount", "-t", "tmpfs", "-o", "size=8M", "none") as small:
        overlay = f"{small}/o.qcow2"
        text = ("echo kept > /kept; sync; "
                "dd if=/dev/zero of=/many bs=1M count=30 conv=fsync || echo full; true")
        done = run(base, overlay, text)
        assert "full" in done.out, done
        moved = shutil.copy(overlay, f"{work}/o.qcow2")
    host.run("qemu-img", "check", "-r", "all", moved, ok=(0, 2, 3))
    assert program.run("run", "--backing", base, moved, "--", "cat", "/kept").out == "kept\n"


KILLS = 10


@pytest.mark.long
def test_kills(image, work):
    """A killed command loses nothing that was synchronised, and leaves nothing but leaks."""
    choose = random.Random(37)
    base = shutil.copy(image, os.path.join(work, "base.img"))
    overlay = f"{work}/o.qcow2"
    kept = 0
    for _ in range(KILLS):
        text = (f"i={kept}; while :; do i=$((i + 1)); seq $i $((i + 3000)) > /f$((i % 700)); "
                "dd if=/dev/null of=/f$((i % 700)) conv=notrunc,fsync 2>&-; echo $i; done")
        with subprocess.Popen(words(base, overlay, text), stdout=subprocess.PIPE,
                              text=True) as process:
            process.stdout.readline()
            time.sleep(choose.random() * 2)
            process.kill()
            lines = process.stdout.read().split("\n")
        kept = max([kept, *(int(line) for line in lines[:-1] if line)])
        host.run("qemu-img", "check", "-r", "all", overlay, ok=(0, 2, 3))
        host.run("qemu-img", "check", overlay)
        text = (f"for i in $(seq {max(1, kept - 600)} {kept}); do "
                "seq $i $((i + 3000)) | md5sum; md5sum < /f$((i % 700)); done")
        done = run(base, overlay, text)
        found = re.findall(r"^(\w+) ", done.out, re.MULTILINE)
        assert done.code == 0 and len(found) > 2, done
        assert found[::2] == found[1::2], (kept, done)
        check(overlay, work)
