# SPDX-License-Identifier: GPL-2.0-only
"""Pipes instead of files, as shells make them with `<(...)`, and the standard streams by their
names.
"""

import os
import signal
import subprocess

import pytest

from support import host, images, program
from support.images import MEGABYTE
from support.processes import wait_until_it_waits
from support.program import good


@pytest.fixture
def image(work):
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    for name in ("hello", "sparse"):
        with open(os.path.join(tree, name), "w", encoding="ascii") as stream:
            stream.write("hello\n")
    os.truncate(os.path.join(tree, "sparse"), MEGABYTE)
    host.run("tar", "-cf", os.path.join(work, "a.tar"), "-C", tree, "hello")
    return images.make_ext4_of(os.path.join(work, "disk.img"), tree)


def shell(script, work, image, code=0):
    """Runs a line of bash, in which "outboard" is the program and $image the image; returns what it
    writes.
    """
    text = f'outboard() {{ "{program.PROGRAM}" "$@"; }}; image={image}; {script}'
    done = subprocess.run(["bash", "-c", text], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False, cwd=work)
    assert done.returncode == code and not done.stderr, done
    return done.stdout


@pytest.mark.parametrize("script", ("outboard cp <(echo text) $image:/new",
                                    "echo text | outboard cp /dev/stdin $image:/new",
                                    "outboard cp /dev/stdin $image:/new <<< text",
                                    "echo text | outboard cp /dev/fd/0 $image:/new"))
def test_a_pipe_is_copied(work, image, script):
    shell(script, work, image)
    assert good("cat", f"{image}:/new").out == "text\n"


@pytest.mark.parametrize("script", ("outboard cp $image:/{} /dev/stdout | cat",
                                    "outboard cp $image:/{} >(cat)",
                                    "outboard cp $image:/{} /dev/fd/1 | cat"))
@pytest.mark.parametrize("name", ("hello", "sparse"))
def test_a_copy_goes_into_a_pipe(work, image, script, name):
    before = os.lstat("/dev/stdout")
    found = shell(f"{script.format(name)}; wait", work, image)
    with open(os.path.join(work, "tree", name), "rb") as stream:
        assert found == stream.read()
    assert os.lstat("/dev/stdout").st_ino == before.st_ino


@pytest.fixture
def full(work):
    """An image of more than a pipe holds, in bytes and in names."""
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    images.write_noise(os.path.join(tree, "big"), 12)
    images.write_noise(os.path.join(tree, "small"), 1)
    for number in range(900):
        with open(os.path.join(tree, f"{number:0200}"), "wb"):
            pass
    return images.make_ext4_of(os.path.join(work, "full.img"), tree, 40)


# Those with a path end at a walk or a read, the others at a volume.
WRITERS = ("cat {0}:/big", "cat {0}:/small", "tar-out {0}:/", "tar-out -z {0}:/", "ls -lR {0}:/",
           "find {0}:/", "ls --json {0}:/", "cp {0}:/big /dev/stdout", "cp -rv {0}:/ {1}/copied",
           "tar-out {0}:/ -f {1}/fifo")


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_one_signal_ends_a_wait_for_the_reader(work, full, command, number):
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDWR)
    words = program.command(*command.format(full, work).split())
    with subprocess.Popen(["env", "--default-signal", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        try:
            wait_until_it_waits(running.pid, number)
            running.send_signal(number)
            assert running.wait(60) == 128 + number, running.stderr.read()
        finally:
            running.kill()
            os.close(held)
    images.check_unmounted_ext4(full)


def test_the_bytes_of_a_volume_wait_for_a_reader(work, full):
    with open(full, "rb") as stream:
        whole = stream.read()
    disk = images.partitioned(f"{work}/disk.img", "label: gpt\nstart=1MiB\n", {2048: full}, 48)
    for words in (("cat", f"{disk}@1"), ("cp", f"{disk}@1", "-")):
        with subprocess.Popen(program.command(*words), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as running:
            wait_until_it_waits(running.pid, signal.SIGTERM)
            running.terminate()
            assert running.wait(60) == 128 + signal.SIGTERM, running.stderr.read()
            # No byte is wrong or missing before the end.
            said = running.stdout.read()
            assert said and whole.startswith(said)


def test_a_reader_that_sets_its_pipe_to_nonblocking(full):
    """All bytes arrive, however slowly they are read."""
    source, target = os.pipe()
    os.set_blocking(target, False)
    with subprocess.Popen(program.command("cat", f"{full}:/big"), stdout=target) as running:
        os.close(target)
        with open(source, "rb") as stream:
            found = stream.read()
        assert running.wait(60) == 0
    assert len(found) == 12 * MEGABYTE


def test_archives(work, image):
    shell("outboard tar-in $image:/ -f <(cat a.tar | gzip)", work, image)
    shell("outboard mkfs ext4 made.img --size 16M --from <(cat a.tar) > said", work, image)
    assert good("cat", f"{work}/made.img:/hello").out == "hello\n"


def test_attributes(work, image):
    shell("outboard setfattr --restore <(printf '# file: hello\\nuser.a=\"1\"\\n\\n') $image:/",
          work, image)
    assert good("getfattr", "--only-values", "-n", "user.a", f"{image}:/hello").out == "1"
    shell("outboard setfacl --restore <(printf '# file: "
          "hello\\nuser::rwx\\ngroup::r--\\nother::---\\n\\n') $image:/", work, image)
    assert "-rwxr-----" in good("ls", "-l", f"{image}:/hello").out


def test_labels(work, image):
    shell("outboard mkfs ext4 labelled.img --size 16M --from tree --file-contexts <(echo '/.* "
          "system_u:object_r:x_t:s0') > said", work, image)
    assert "x_t" in good("getfattr", "-d", "-m", "-", f"{work}/labelled.img:/hello").out
