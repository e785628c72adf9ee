# SPDX-License-Identifier: GPL-2.0-only
"""Pipes instead of files, as shells make them with `<(...)`, and the standard streams by their
names.
"""

import os
import subprocess

import pytest

from support import host, images, program
from support.images import MEGABYTE
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
