# SPDX-License-Identifier: GPL-2.0-only
"""Clients of a server's kernel, and programs there: both begin in one root."""

import contextlib
import os
import shutil

import pytest

from support import host, images, program, programs
from support.kernel_server import serving
from support.mounts import NOBODY
from support.remote_client import RemoteClient

EPERM, EACCES = 1, 13
# System calls, as Linux numbers them on x86-64.
GETCWD, CHROOT, SETNS, PIDFD_OPEN, PIDFD_GETFD = 79, 161, 308, 434, 438
# Of setns(2).
NEW_MOUNTS = 0x20000


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("clients") / "root")
    programs.make_root(tree, "cat", "ls", "mount")
    os.mkdir(os.path.join(tree, "mnt"))
    os.mkdir(os.path.join(tree, "srv"))
    os.chmod(os.path.join(tree, "srv"), 0o777)
    return tree


@pytest.fixture(scope="module", name="image")
def fixture_image(tree):
    return images.make_ext4_of(f"{tree}.img", tree)


@pytest.fixture(params=["root", "root-rw", "image", "rw", "overlay"])
def place(request, tree, image, tmp_path):
    """The words for a server, and a function that reads what it has kept, if that stays."""
    tree = shutil.copytree(tree, tmp_path / "root") if request.param == "root-rw" else tree
    if request.param == "rw":
        image = shutil.copy(image, tmp_path / "copy.img")
    overlay = str(tmp_path / "overlay.qcow2")
    kept = {"root-rw": lambda path: host.run("cat", f"{tree}{path}").stdout,
            "rw": lambda path: program.good("cat", f"{image}:{path}").out,
            "overlay": lambda path: program.good("cat", "--backing", image,
                                                 f"{overlay}:{path}").out}
    words = {"root": ("--root", tree), "root-rw": ("--rw", "--root", tree), "image": (image,),
             "rw": ("--rw", image), "overlay": ("--overlay", overlay, image)}
    return words[request.param], kept.get(request.param)


def read(client, path):
    file = client.open(path)
    assert file >= 0, (path, file)
    return client.read(file, 4096)


def working_directory(client):
    length = client.call(GETCWD, 4096, 100)
    return client.slot.get(4096, length) if length > 0 else length


@contextlib.contextmanager
def user_of_host(number):
    """Connections have this user meanwhile."""
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)


def test_clients_and_programs_see_the_same_files(place):
    words, kept = place
    with serving("--net", "none", *words) as server:
        with RemoteClient(server.path) as client:
            assert working_directory(client) == b"/\0"
            file = client.open("srv/client", os.O_WRONLY | os.O_CREAT, 0o644)
            assert client.write(file, b"of a client\n") == 12
            made = server.run("sh", "-c", "cat /srv/client; echo of a program >/srv/program; "
                                          "mount -t tmpfs none /mnt; echo memory >/mnt/file")
            assert (made.code, made.out) == (0, "of a client\n"), made
            assert read(client, "/srv/program") == b"of a program\n"
            assert read(client, "/mnt/file") == b"memory\n"
            # A copy begins where its parent is.
            _, ticket = client.fork()
            with RemoteClient(server.path, ticket) as copy:
                assert read(copy, "srv/program") == b"of a program\n"
            # The file stays open: the end of the server closes it.
            assert server.halt().code == 0
    if kept:
        assert (kept("/srv/client"), kept("/srv/program")) == ("of a client\n", "of a program\n")


def test_an_image_is_clean_after_clients(image, tmp_path):
    """A client's open files, and its working directory, do not hold the image."""
    copy = shutil.copy(image, tmp_path / "copy.img")
    with serving("--rw", "--net", "none", copy) as server, RemoteClient(server.path) as client:
        file = client.open("/srv/kept", os.O_WRONLY | os.O_CREAT, 0o644)
        assert client.write(file, b"kept\n") == 5
        assert server.halt().code == 0
    host.run("e2fsck", "-fn", copy)
    images.check_unmounted_ext4(copy)
    assert program.good("cat", f"{copy}:/srv/kept").out == "kept\n"


def test_a_server_without_programs_has_the_tree_of_the_kernel(image):
    with serving("--net", "none", "--mount", f"{image}:/data") as server, \
            RemoteClient(server.path) as client:
        assert client.open("/data/srv") >= 0 and client.open("/srv") < 0


@pytest.mark.needs_root
def test_another_user_stays_in_the_root(tree):
    with serving("--net", "none", "--allow", f"{NOBODY}=1000", "--root", tree) as server:
        with user_of_host(NOBODY):
            client = RemoteClient(server.path)
        with client:
            assert read(client, "/../../bin/sh")[:4] == b"\x7fELF"
            file = client.open("/srv/of-1000", os.O_WRONLY | os.O_CREAT)
            assert file >= 0 and client.open("/etc-new", os.O_WRONLY | os.O_CREAT) == -EACCES
            assert server.run("ls", "-n", "/srv/of-1000").out.split()[2] == "1000"
            assert client.call(CHROOT, client.slot.put(64, b"/srv\0")) == -EPERM
            assert client.open("/proc/1/root") == -EACCES
            assert client.open("/proc/1/ns/mnt") == -EACCES
            # The way in which a process of root has come here.
            process = client.call(PIDFD_OPEN, 1, 0)
            assert process >= 0 and client.call(PIDFD_GETFD, process, 0, 0) == -EPERM
            assert client.call(SETNS, process, NEW_MOUNTS) == -EPERM
