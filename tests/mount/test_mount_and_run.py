# SPDX-License-Identifier: GPL-2.0-only
"""One image, or an overlay over it, of `outboard run` and `outboard mount` at a time: refused or
right.
"""

import contextlib
import os
import subprocess

import pytest

from support import images, mounts, program, programs

pytestmark = mounts.MARKS

# The ways to use an image that leave it as it is: they go together.
LOOKS = ("mount ro", "run", "overlay")


@pytest.fixture(name="image")
def fixture_image(work):
    tree = os.path.join(work, "tree")
    programs.make_root(tree, "cat", "true")
    with open(os.path.join(tree, "text"), "w", encoding="ascii") as stream:
        stream.write("of the image\n")
    return images.make_ext4_of(os.path.join(work, "root.img"), tree)


def command(image, way):
    options = {"run": (), "run rw": ("--rw",), "overlay": ("--overlay", f"{image}.qcow2")}
    return ("run", *options[way], image, "--")


@contextlib.contextmanager
def used(image, way):
    """Yields while another command uses the image in this way."""
    if way.startswith("mount"):
        with mounts.mounted(image, *(("-o", "ro") if way == "mount ro" else ())):
            yield
        return
    words = program.command(*command(image, way), "bash", "-c", "echo ready; read line")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        yield
        running.communicate(b"\n")
        assert running.returncode == 0


def attempt(image, way):
    """Uses the image in this way for a moment, and returns what the command has printed."""
    if not way.startswith("mount"):
        return program.run(*command(image, way), "cat", "/text")
    directory = f"{image}.second"
    os.mkdir(directory)
    options = ("-o", "ro") if way == "mount ro" else ()
    done = program.run("mount", *options, image, directory)
    if done.code == 0:
        with open(os.path.join(directory, "text"), encoding="ascii") as stream:
            done.out = stream.read()
        program.good("umount", directory)
    os.rmdir(directory)
    return done


@pytest.mark.parametrize("first", ("mount ro", "mount rw", "run", "run rw", "overlay"))
def test_at_a_time(image, first):
    with used(image, first):
        for second in ("mount ro", "mount rw", "run", "run rw", "overlay"):
            done = attempt(image, second)
            if first in LOOKS and second in LOOKS and (first, second) != ("overlay", "overlay"):
                assert (done.code, done.out) == (0, "of the image\n"), (second, done)
            else:
                assert done.code != 0 and "in use" in done.err, (second, done)
                assert len(done.err.splitlines()) == 1, (second, done)
    program.good("fsck", "-n", image)


def test_a_mount_of_an_overlay(image):
    overlay = f"{image}.qcow2"
    done = program.run(*command(image, "overlay"), "bash", "-c", "echo new > /new")
    assert done.code == 0, done
    with mounts.mounted(overlay) as directory:
        with open(os.path.join(directory, "new"), encoding="ascii") as stream:
            assert stream.read() == "new\n"
        with open(os.path.join(directory, "text"), "w", encoding="ascii") as stream:
            stream.write("of the mount\n")
        done = attempt(image, "overlay")
        assert done.code == 125 and f"mounted on {directory}" in done.err, done
        assert attempt(image, "run").out == "of the image\n"
    assert attempt(image, "overlay").out == "of the mount\n"
