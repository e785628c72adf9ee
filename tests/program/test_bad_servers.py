# SPDX-License-Identifier: GPL-2.0-only
"""Servers of NFS, SMB, 9p and NBD that misbehave: in the middle of the data they fall silent,
answer byte by byte, leave bytes out, send wrong lengths, or end; their disks are full, or fail.
Every command ends with exit code 1 and names the server.
"""

import contextlib
import os
import signal
import subprocess

import pytest

from support import bad_servers, host, images, mounts, processes, program, servers
from support.patience import wait_until

pytestmark = pytest.mark.timeout(600)

# What a request may take.
SECONDS = 2
SIZE = 12 << 20
# Bytes before the trouble begins: more than a mount takes.
GOOD = 3 << 20

# These end within seconds; the clients of NFS and SMB take longer for others.
QUICK = [("nfs", "silent"), ("nbd", "silent"), ("nbd", "lie"),
         *(("9p", kind) for kind in bad_servers.KINDS)]
CASES = [pytest.param(protocol, kind, marks=[] if (protocol, kind) in QUICK else pytest.mark.long)
         for protocol in ("nfs", "smb", "9p", "nbd") for kind in bad_servers.KINDS]


def make_data(path: str) -> str:
    with open(path, "wb") as file:
        file.write(os.urandom(SIZE))
    return path


@contextlib.contextmanager
def nbd_disk(work: str, options=(), parameters=()):
    """An NBD server, with a file system that has `large`."""
    image = images.make(os.path.join(work, "disk.ext4"), "ext4", 64)
    program.good("cp", make_data(os.path.join(work, "large")), f"{image}:/")
    with servers.nbd(work, *options, "file", image, *parameters) as server:
        yield servers.Share(server, "nbd://{}")


@contextlib.contextmanager
def server_of(protocol: str, work: str):
    if protocol == "nbd":
        with nbd_disk(work) as found:
            yield found
        return
    with servers.share(protocol, work) as found:
        make_data(os.path.join(found.server.export, "large"))
        yield found


@contextlib.contextmanager
def bad_server(protocol: str, kind: str, work: str, good_bytes=GOOD):
    """The name of its file system, and options for it."""
    with server_of(protocol, work) as found:
        with bad_servers.before(found.server.port, kind, good_bytes) as proxy:
            yield found.name(proxy.port), ("--net", "host", *found.options)


@pytest.mark.parametrize("protocol,kind", CASES)
def test_reading(protocol, kind, work):
    with bad_server(protocol, kind, work) as (name, options):
        done = program.bad(*options, "--timeout", SECONDS, "cat", f"{name}:/large", mentions=[name])
        if kind == "silent" and protocol != "smb":
            assert f"{name}: the server has not answered within {SECONDS} s" in done.err, done


@pytest.mark.parametrize("protocol,kind", CASES)
def test_writing(protocol, kind, work):
    data = make_data(os.path.join(work, "data"))
    with bad_server(protocol, kind, work) as (name, options):
        program.bad(*options, "--timeout", SECONDS, "cp", data, f"{name}:/new", mentions=[name])


def ended_by_a_signal(*words) -> bytes:
    """Returns the messages of a command that waits for its server, and ends by one SIGTERM."""
    with subprocess.Popen(program.command(*words), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as waiting:
        try:
            processes.wait_until_it_waits(waiting.pid, signal.SIGTERM)
            waiting.send_signal(signal.SIGTERM)
            _, told = waiting.communicate(timeout=300)
        finally:
            waiting.kill()
    assert waiting.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), told
    return told


@pytest.mark.parametrize("protocol", ["nfs", "smb", "9p", "nbd"])
def test_one_signal_ends_the_wait(protocol, work):
    """Long before the limit of a request."""
    with bad_server(protocol, "silent", work) as (name, options):
        told = ended_by_a_signal(*options, "--timeout", 3600, "cat", f"{name}:/large")
    assert b"has not answered" not in told, told


@contextlib.contextmanager
def mounted(name: str, options, directory: str):
    """Also unmounts in time, with any state of the server."""
    os.mkdir(directory)
    program.good(*options, "mount", name, directory)
    try:
        yield directory
        program.run("umount", directory)
        assert not mounts.is_mounted(directory)
    finally:
        subprocess.run(["umount", "-l", directory], stderr=subprocess.DEVNULL, check=False)


def read_all(path: str):
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass


# The client of SMB connects again for half a minute.
@pytest.mark.parametrize("protocol", ["nfs", "9p", pytest.param("smb", marks=pytest.mark.long)])
def test_a_mount_of_a_silent_server_returns_errors(protocol, work):
    directory = os.path.join(work, "mounted")
    with bad_server(protocol, "silent", work) as (name, options):
        with mounted(name, (*options, "--timeout", SECONDS), directory):
            with pytest.raises(OSError):
                read_all(os.path.join(directory, "large"))
            # Other requests are answered, too.
            with pytest.raises(OSError):
                read_all(os.path.join(directory, "other"))


def test_a_mount_of_a_silent_server_loses_no_write_unseen(work):
    directory = os.path.join(work, "mounted")
    with bad_server("nfs", "silent", work) as (name, options):
        with mounted(name, (*options, "--timeout", SECONDS), directory):
            with pytest.raises(OSError), open(os.path.join(directory, "new"), "wb") as file:
                file.write(os.urandom(SIZE))
                file.flush()
                os.fsync(file.fileno())


def test_a_mount_goes_on_when_its_server_answers_again(work):
    directory = os.path.join(work, "mounted")
    with servers.share("nfs", work) as found:
        make_data(os.path.join(found.server.export, "large"))
        with mounted(found.name(), ("--net", "host", "--timeout", SECONDS), directory):
            os.kill(found.server.process.pid, signal.SIGSTOP)
            with pytest.raises(OSError):
                read_all(os.path.join(directory, "large"))
            os.kill(found.server.process.pid, signal.SIGCONT)
            wait_until(lambda: can_be_read(os.path.join(directory, "large")), "it answers again")


def can_be_read(path: str) -> bool:
    with contextlib.suppress(OSError):
        read_all(path)
        return True
    return False


@pytest.fixture(name="image")
def image_with_a_file(work):
    image = images.make(os.path.join(work, "beside.img"), "ext4", 64)
    program.good("mkdir", f"{image}:/kept")
    return image


def check_image(image: str):
    images.check_unmounted_ext4(image)
    assert "kept" in program.good("ls", f"{image}:/").out


@pytest.mark.parametrize("protocol", ["nfs", "9p", pytest.param("smb", marks=pytest.mark.long)])
@pytest.mark.parametrize("is_source", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_image_beside_a_silent_server(protocol, is_source, image, work):
    """It is unmounted as well as ever. `is_source`: the copy goes from the server to the image."""
    program.good("cp", make_data(os.path.join(work, "data")), f"{image}:/")
    with bad_server(protocol, "silent", work) as (name, options):
        place, other = f"{name}:/large", f"{image}:/new"
        if not is_source:
            place, other = f"{image}:/data", f"{name}:/new"
        program.bad(*options, "--timeout", SECONDS, "cp", place, other, mentions=[name])
    check_image(image)


@pytest.mark.parametrize("protocol", ["nfs", "9p"])
def test_one_signal_ends_the_wait_beside_an_image(protocol, image, work):
    with bad_server(protocol, "silent", work) as (name, options):
        ended_by_a_signal(*options, "--timeout", 3600, "cp", f"{name}:/large", f"{image}:/")
    check_image(image)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["nfs", "smb", "9p"])
@pytest.mark.parametrize("good_bytes", [60, 400, 2000])
def test_an_image_beside_a_server_that_is_silent_while_it_is_mounted(protocol, good_bytes, image,
                                                                     work):
    with bad_server(protocol, "silent", work, good_bytes) as (name, options):
        program.bad(*options, "--timeout", SECONDS, "cp", f"{name}:/large", f"{image}:/new",
                    mentions=[name])
    check_image(image)


@pytest.mark.needs_root
@pytest.mark.parametrize("protocol", ["nfs", "smb", "9p"])
def test_a_full_server(protocol, work):
    data = make_data(os.path.join(work, "data"))
    with host.mounted("mount", "-t", "tmpfs", "-o", "size=8M", "none") as small:
        with servers.share(protocol, small) as found:
            program.bad(*found.options, "--net", "host", "cp", data, f"{found.name()}:/",
                        mentions=[found.name(), "no space"])


@pytest.mark.parametrize("options,parameters,reason", [
    (("--filter=error",), ("error-pwrite-rate=100%", "error=ENOSPC"), ""),
    (("--filter=error",), ("error-pread-rate=100%",), ""), (("-r",), (), "read-only")])
def test_a_disk_that_takes_no_data(options, parameters, reason, work):
    data = make_data(os.path.join(work, "data"))
    with nbd_disk(work, options, parameters) as found:
        name = found.name()
        program.bad("--net", "host", "cp", data, f"{name}:/", mentions=[name, reason])
