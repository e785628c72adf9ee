# SPDX-License-Identifier: GPL-2.0-only
"""The sandbox: code inside the kernel that tries to get out, and what the process has given up when it looks at an image."""

import errno
import os
import re
import shutil
import subprocess
import time

import pytest

from support import host, images, program

HERE = os.path.join(program.REPOSITORY, "tests", "sandbox")
KERNEL_BUILD = os.path.join(program.OUT, "kernel", "full")
REFUSED = (-errno.EPERM, -errno.EACCES)


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    """The module of escape.c. Where others may read it: root gives up its rights."""
    directory = str(tmp_path_factory.mktemp("escape"))
    for name in ("Kbuild", "escape.c"):
        shutil.copy(os.path.join(HERE, name), directory)
    host.run("make", "-C", os.path.join(program.OUT, "source", "linux"), f"O={KERNEL_BUILD}", "ARCH=outboard", f"M={directory}", "modules",
             MAKEFLAGS="", MAKELEVEL="")
    return os.path.join(directory, "escape.ko")


@pytest.fixture
def image(work):
    return images.make(os.path.join(work, "image.ext4"), "ext4", 32)


def attempts(component: str, *words, cwd: str, code: int = 1) -> dict:
    """What came of each attempt, by its name: the file system of the component is mounted in the place of the image's own."""
    open(os.path.join(cwd, "kept"), "w").close()
    done = program.run("-v", "--component", component, "--type", "escape", *words, cwd=cwd)
    assert done.code == code, str(done)
    found = {name: int(result) for name, result in re.findall(r"escape: (\w+) (-?\d+)$", done.err, re.MULTILINE)}
    assert found.get("alive") == 1, str(done)
    return found


def check_shut_in(found: dict) -> None:
    assert found.pop("clone3") == -errno.ENOSYS
    assert found.pop("alive") == 1
    assert len(found) == 16
    assert {name: result for name, result in found.items() if result not in REFUSED} == {}


def test_kernel_code_cannot_get_out(component, image, work):
    check_shut_in(attempts(component, "ls", f"{image}:/", cwd=work))
    assert not os.path.exists(os.path.join(work, "escaped"))


def test_kernel_code_cannot_get_out_of_a_copy(component, image, work):
    """Files of the host are used, but only those that were named."""
    inside, outside = os.path.join(work, "inside"), os.path.join(work, "outside")
    os.mkdir(inside)
    os.mkdir(outside)
    check_shut_in(attempts(component, "cp", "-a", f"{image}:/", inside, cwd=outside))
    assert os.listdir(inside) == []
    assert os.listdir(outside) == ["kept"]


def test_without_the_sandbox_it_gets_out(component, image, work):
    """So the attempts are real."""
    found = attempts(component, "--no-sandbox", "ls", f"{image}:/", cwd=work)
    for name in ("open", "openat", "create", "socket", "unix_socket", "memfd_create", "shared_memory"):
        assert found[name] >= 0, name
    assert found["unlink"] == 0
    assert not os.path.exists(os.path.join(work, "kept"))
    assert found["execve"] == -errno.ENOENT


def test_no_sandbox_is_said(image):
    done = program.run("--no-sandbox", "ls", f"{image}:/")
    assert done.code == 0
    assert "NO SANDBOX" in done.err
    assert program.good("ls", f"{image}:/").out == done.out


def statuses(process) -> list:
    """/proc/PID/status of each thread."""
    found = []
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{thread}/status", encoding="ascii") as lines:
            found.append(dict(re.findall(r"^(\w+):\s*(.*)$", lines.read(), re.MULTILINE)))
    return found


def test_all_threads_have_given_up_their_rights(image, work):
    """While a large file is written to a pipe that nobody reads."""
    big = os.path.join(work, "big")
    images.write_noise(big, 8)
    program.good("cp", big, f"{image}:/")
    with subprocess.Popen(program.command("cat", f"{image}:/big"), stdout=subprocess.PIPE) as process:
        assert process.stdout.read(65536)
        time.sleep(0.2)
        threads = statuses(process)
        process.kill()
    assert len(threads) > 2
    for thread in threads:
        assert thread["Seccomp"] == "2", thread["Name"]
        assert thread["Seccomp_filters"] == "3", thread["Name"]
        assert thread["NoNewPrivs"] == "1", thread["Name"]
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(thread[kind], 16) == 0, thread["Name"]


@pytest.mark.needs_root
def test_root_opens_images_of_others(work):
    """Before it gives up the right to."""
    image = images.make(os.path.join(work, "others.ext4"), "ext4", 32)
    os.chown(image, 12345, 12345)
    os.chmod(image, 0o600)
    program.good("cp", __file__, f"{image}:/file")
    assert program.good("cat", f"{image}:/file").raw == open(__file__, "rb").read()
    images.check_ext4(image)


@pytest.mark.needs_root
@pytest.mark.needs("setpriv")
def test_a_user_without_rights(work):
    """Also one whose home directory is not there."""
    image = images.make(os.path.join(work, "mine.ext4"), "ext4", 32)
    os.chown(image, 12345, 12345)
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    done = program.run("cp", "/etc/hostname", f"{image}:/", prefix=user, HOME="/nonexistent", XDG_CACHE_HOME="")
    assert done.code == 0, str(done)
    done = program.run("cat", f"{image}:/hostname", prefix=user, HOME="/nonexistent", XDG_CACHE_HOME="")
    assert done.raw == open("/etc/hostname", "rb").read(), str(done)


def test_a_snapshot_is_used_and_made_inside(image, work):
    """The first run leaves one in the cache directory, the second one changes nothing there."""
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    for _ in range(2):
        program.good("ls", f"{image}:/", XDG_CACHE_HOME=cache)
    found = {name: os.stat(os.path.join(cache, "outboard", name)).st_ino for name in os.listdir(os.path.join(cache, "outboard"))}
    assert any(name.endswith(".snapshot") for name in found)
    program.good("ls", f"{image}:/", XDG_CACHE_HOME=cache)
    assert found == {name: os.stat(os.path.join(cache, "outboard", name)).st_ino for name in os.listdir(os.path.join(cache, "outboard"))}


def test_a_copy_does_not_write_to_the_cache(image, work):
    """It goes on opening files, and could leave something for the next one to start from."""
    cache, target = os.path.join(work, "cache"), os.path.join(work, "target")
    os.mkdir(cache, 0o700)
    os.mkdir(target)
    program.good("cp", "-a", f"{image}:/", target, XDG_CACHE_HOME=cache)
    assert os.listdir(os.path.join(cache, "outboard")) == []
