# SPDX-License-Identifier: GPL-2.0-only
"""The network of programs of an image: `outboard run`."""

import os

import pytest

from support import images, program, programs

PROGRAMS = ("busybox", "cat", "ip", "ls", "mount", "ping", "sleep")
NAME = "box.example"


def make_image(directory, *, hosts=None, resolver=None, link=None):
    """A root with these texts of /etc/hosts and /etc/resolv.conf, or a link in the place of that.
    """
    tree = os.path.join(directory, "root")
    programs.make_root(tree, *PROGRAMS)
    os.makedirs(os.path.join(tree, "etc"), exist_ok=True)
    for name, text in (("hostname", f"{NAME}\n"), ("hosts", hosts), ("resolv.conf", resolver)):
        if text is not None:
            with open(os.path.join(tree, "etc", name), "w", encoding="ascii") as stream:
                stream.write(text)
    if link:
        os.symlink(link, os.path.join(tree, "etc", "resolv.conf"))
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    return make_image(str(tmp_path_factory.mktemp("network")))


def script(image, text, *options):
    return program.run("run", *options, image, "--", "sh", "-c", text)


@pytest.mark.parametrize("address", ("127.0.0.1", "::1", "localhost", NAME, "box"))
def test_loopback_is_up(image, address):
    done = script(image, f"ping -c 1 -W 5 {address} && cat /proc/sys/kernel/hostname")
    assert done.code == 0 and done.out.endswith(f"{NAME}\n"), done


def test_descriptors_are_limited_as_on_any_linux(image):
    done = script(image, "ulimit -n; ulimit -Hn; ulimit -n 5000 && ulimit -n")
    assert done.out == "1024\n1048576\n5000\n", done


def test_the_image_keeps_its_hosts(work):
    image = make_image(work, hosts="127.0.0.1 localhost own\n")
    assert script(image, "cat /etc/hosts").out == "127.0.0.1 localhost own\n"


def test_hosts_are_shown_and_not_written(work):
    image = make_image(work)
    done = program.run("run", "--rw", image, "--", "sh", "-c", "cat /etc/hosts")
    assert f"127.0.1.1 {NAME} box\n" in done.out, done
    assert program.good("stat", f"{image}:/etc/hosts").out.count("127.0.1.1") == 0
    assert program.good("cat", f"{image}:/etc/hosts").out == ""
