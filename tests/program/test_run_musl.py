# SPDX-License-Identifier: GPL-2.0-only
"""`outboard run` of a root without glibc: musl, and busybox as its shell."""

import os
import shutil

import pytest

from support import host, images, program

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "musl_inside.c")
LOADER = "/lib/ld-musl-x86_64.so.1"
BUSYBOX = ("sh", "cat", "echo", "sort", "seq", "wc", "head", "tail", "tar", "gzip", "sleep", "kill")

pytestmark = [pytest.mark.long, pytest.mark.needs("musl-gcc")]


def is_static(path: str) -> bool:
    return "not a dynamic executable" in host.run("ldd", path, ok=(0, 1)).stderr


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    """The program twice: with the library, and without one."""
    directory = str(tmp_path_factory.mktemp("musl"))
    tree = os.path.join(directory, "root")
    for name in ("bin", "dev", "etc", "lib", "proc", "sys", "tmp", "root"):
        os.makedirs(os.path.join(tree, name))
    for name, flags in (("dynamic", ()), ("static", ("-static",))):
        host.run("musl-gcc", "-O2", "-Wall", "-Wno-unused-parameter", *flags, "-o",
                 os.path.join(tree, "bin", name), SOURCE)
    shutil.copy(os.path.realpath(LOADER), os.path.join(tree, LOADER.lstrip("/")))
    shell = shutil.which("busybox")
    if not is_static(shell):
        for file in host.run("ldd", shell).stdout.split():
            if file.startswith("/"):
                copy = os.path.join(tree, file.lstrip("/"))
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(os.path.realpath(file), copy)
    shutil.copy(os.path.realpath(shell), os.path.join(tree, "bin", "busybox"))
    for name in BUSYBOX:
        os.symlink("busybox", os.path.join(tree, "bin", name))
    with open(os.path.join(tree, "etc", "hosts"), "w", encoding="ascii") as hosts:
        hosts.write("127.0.0.1 localhost\n")
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree, 64)


@pytest.mark.parametrize("vcpus", (1, 2))
@pytest.mark.parametrize("name", ("dynamic", "static"))
def test_a_program_of_musl(image, name, vcpus):
    done = program.run("run", image, "--", f"/bin/{name}", vcpus=vcpus)
    assert done.code == 0 and not done.err, done
    lines = done.out.splitlines()
    assert len(lines) == 50 + 2 + 2 + 7 + 3 and all(line.endswith(" ok") for line in lines), done


def test_busybox_is_the_shell(image):
    script = """seq 1 1000 | sort -n -r | head -n 3 | tail -n 1
tar -C / -cf - bin/static | gzip | gzip -d | tar -tf -
cat /etc/hosts | head -n 1
(sleep 100 & kill $!; wait $!; echo $?) 2>/dev/null
(echo a; echo b >&2) 2>&1 | wc -l
"""
    done = program.run("run", image, "--", "sh", "-c", script)
    assert (done.code, done.err) == (0, ""), done
    assert done.out.split() == ["998", "bin/static", "127.0.0.1", "localhost", "143", "2"], done
