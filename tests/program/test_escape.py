# SPDX-License-Identifier: GPL-2.0-only
"""Images and archives that try to get out of the commands which read them: shell, tar-in, tar-out,
diff and the mount server. test_sandbox.py has the other commands.

Each test of the first part runs code inside the kernel (sandbox/escape.c), as an image that took
over the process would. The second part has images and archives with hostile names and links.
"""

import contextlib
import errno
import io
import os
import subprocess
import tarfile

import pytest

from support import host, images, modules, mounts, program
from test_cli import has_controls, on_a_terminal
from test_sandbox import HERE, attempts, check_shut_in

# Clears the screen, then moves the cursor: what a name may try on a terminal.
CONTROLS = "\x1b[2J\x1b[H\u009b2Jx\ry"
NEWLINE = "a\n/etc/passwd"


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("drivers"))
    modules.build(HERE, directory)
    return os.path.join(directory, "escape.ko")


@pytest.fixture
def image(work):
    return images.make(os.path.join(work, "image.ext4"), "ext4", 32)


def archive(path: str) -> str:
    with tarfile.open(path, "w") as members:
        member = tarfile.TarInfo("member")
        member.size = 7
        members.addfile(member, io.BytesIO(b"content"))
    return path


# ---- code inside ----


@pytest.mark.parametrize("words, code", [
    (("tar-in", "-f", "{inside}/in.tar", "{image}:/"), 1),
    (("tar-out", "-f", "{inside}/out.tar", "{image}:/"), 1),
    (("diff", "{image}:/", "{inside}"), 2),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_kernel_code_cannot_get_out(component, image, work, words, code):
    """Files of the host are used, but only those that were named."""
    inside, outside = os.path.join(work, "inside"), os.path.join(work, "outside")
    os.mkdir(inside)
    os.mkdir(outside)
    before = archive(os.path.join(inside, "in.tar"))
    with open(before, "rb") as stream:
        content = stream.read()
    words = [word.format(image=image, inside=inside) for word in words]
    check_shut_in(attempts(component, *words, cwd=outside, code=code))
    assert os.listdir(outside) == ["kept"]
    assert set(os.listdir(inside)) <= {"in.tar", "out.tar"}
    with open(before, "rb") as stream:
        assert stream.read() == content


def test_kernel_code_cannot_get_out_of_a_shell(component, image, work):
    """It may change what is below the directory in which it was started, and no more. The name
    that the code creates is a link to the outside.
    """
    inside, outside = os.path.join(work, "inside"), os.path.join(work, "outside")
    os.mkdir(inside)
    os.mkdir(outside)
    os.symlink(f"{outside}/new", f"{inside}/escaped")
    found = attempts(component, "shell", image, cwd=inside)
    assert found.pop("unlink") == 0
    check_shut_in({**found, "unlink": -errno.EACCES})
    assert os.listdir(outside) == [] and "escaped" in os.listdir(inside)


# ---- names and links ----


def debugfs(image: str, *commands: str) -> None:
    host.run("debugfs", "-w", "-f", "-", image, input="\n".join(commands) + "\n")


def rename_entry(image: str, old: bytes, new: bytes) -> None:
    """Overwrites a name in a directory's block, as damage would. Checksums must be off."""
    assert len(old) == len(new)
    with open(image, "r+b") as disk:
        content = disk.read()
        assert content.count(old) == 1
        disk.seek(content.index(old))
        disk.write(new)


# As long as the name that it replaces, and of this run alone.
ABSOLUTE = f"/tmp/ob{os.getpid() % 100000:05}"


@pytest.fixture
def damaged(work):
    """An image whose directory has names with slashes, made of harmless ones of the same length."""
    image = images.make(f"{work}/damaged.img", "ext4", 32, "-O", "^metadata_csum,^dir_index")
    with open(f"{work}/content", "wb") as stream:
        stream.write(b"from the image")
    debugfs(image, f"write {work}/content good", f"write {work}/content 12345678901",
            f"write {work}/content abcdefghijkl")
    rename_entry(image, b"12345678901", b"../../../up")
    rename_entry(image, b"abcdefghijkl", ABSOLUTE.encode())
    return image


def test_names_with_slashes_do_not_leave(work, damaged):
    """A directory of an image may claim names that lead elsewhere. Nothing is made outside of the
    target, and no archive has such a member.
    """
    os.makedirs(f"{work}/a/b/c/target")
    program.run("cp", "-r", f"{damaged}:/", f"{work}/a/b/c/target")
    found = [os.path.join(path, name) for path, _, names in os.walk(f"{work}/a") for name in names]
    assert all(path.startswith(f"{work}/a/b/c/target/") for path in found), found
    assert not os.path.exists(f"{work}/a/up") and not os.path.exists(ABSOLUTE)
    program.run("tar-out", "-f", f"{work}/out.tar", f"{damaged}:/")
    with contextlib.suppress(FileNotFoundError), tarfile.open(f"{work}/out.tar") as members:
        names = members.getnames()
        assert not [name for name in names
                    if ".." in name.split("/") or name.endswith(ABSOLUTE[1:])], names


def test_diff_of_names_with_slashes(work, damaged):
    """Neither the file outside is compared, nor is it shown."""
    os.makedirs(f"{work}/a/b/c/target")
    with open(f"{work}/a/up", "wb") as stream:
        stream.write(b"a secret of the host")
    done = program.run("diff", f"{damaged}:/", f"{work}/a/b/c/target")
    assert done.code in (1, 2), str(done)
    assert "secret" not in done.out + done.err


@pytest.fixture
def odd_names(work):
    """An image with names that have control characters or newlines."""
    os.makedirs(f"{work}/odd")
    for name in (CONTROLS, NEWLINE.replace("/", ":")):
        with open(f"{work}/odd/{name}", "wb") as stream:
            stream.write(b"content")
    return images.make_ext4_of(f"{work}/odd.img", f"{work}/odd")


def test_names_do_not_reach_the_terminal(work, odd_names):
    """diff's listing and the messages of tar-in, tar-out and the shell show them escaped."""
    os.mkdir(f"{work}/empty")
    shown = on_a_terminal("diff", "--ignore", "owners", f"{odd_names}:/", f"{work}/empty")
    assert shown.count(b"Only in") == len(shown.splitlines()) == 3, shown
    assert not has_controls(shown), shown
    with tarfile.open(f"{work}/bad.tar", "w") as members:
        for name in (f"../{CONTROLS}", f"../{NEWLINE}"):
            members.addfile(tarfile.TarInfo(name))
    done = program.run("tar-in", "-f", f"{work}/bad.tar", f"{odd_names}:/")
    assert done.code == 1 and done.err.count("left out") == 2, str(done)
    assert not has_controls(done.err.encode()), done.err
    assert len(done.err.splitlines()) == 2, done.err
    done = program.run("tar-out", "-f", f"{work}/out.tar", f"{odd_names}:/{CONTROLS}/no")
    assert done.code == 1 and not has_controls(done.err.encode()), done.err


def test_names_in_a_shell(odd_names):
    """The messages of a shell. test_cli.py checks the output of ls and find there."""
    done = subprocess.run(program.command("shell", odd_names), capture_output=True, check=False,
                          input=f'cat "/{CONTROLS}/no"\n'.encode(), timeout=300)
    assert done.returncode == 1 and not has_controls(done.stderr), done.stderr


def test_links_of_an_archive_stay_inside(work, image):
    """A member behind a symbolic link, and hard links to what is outside of the destination."""
    def member(name, kind=tarfile.REGTYPE, link=""):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        info.size = 4 if kind == tarfile.REGTYPE else 0
        return info

    program.good("mkdir", f"{image}:/in")
    with tarfile.open(f"{work}/links.tar", "w") as members:
        for info in (member("up", tarfile.SYMTYPE, "../.."), member("up/out", tarfile.REGTYPE),
                     member("abs", tarfile.SYMTYPE, "/etc"), member("abs/new", tarfile.REGTYPE),
                     member("passwd", tarfile.LNKTYPE, "/etc/passwd"),
                     member("self", tarfile.LNKTYPE, "abs/../../lost+found")):
            members.addfile(info, io.BytesIO(b"data"))
    done = program.run("tar-in", "-f", f"{work}/links.tar", f"{image}:/in")
    assert done.code == 1, str(done)
    listed = program.good("ls", f"{image}:/").out.split()
    assert sorted(listed) == ["in", "lost+found"]
    assert program.run("cat", f"{image}:/in/passwd").code == 1
    assert "root:" not in program.run("cat", f"{image}:/in/passwd").out


@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
@pytest.mark.needs_root
def test_devices_and_links_in_a_mount(work, image):
    """A mount gives no access to the host's devices, and a hostile link leads where the host's
    kernel says: the server opens nothing by it.
    """
    debugfs(image, "mknod disk b 7 0", "mknod memory c 1 1", "symlink link /etc/passwd")
    with mounts.mounted(image) as place:
        for name, mode in (("disk", os.O_RDWR), ("memory", os.O_RDONLY)):
            with pytest.raises(OSError) as refused:
                os.close(os.open(f"{place}/{name}", mode))
            assert refused.value.errno in (errno.EACCES, errno.EPERM), name
        assert os.readlink(f"{place}/link") == "/etc/passwd"
        copied = program.run("cat", f"{image}:/link")
        assert copied.code == 1 and "root:" not in copied.out, str(copied)


@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_names_with_slashes_in_a_mount(work, damaged):
    """The host's kernel refuses such entries: neither listing nor lookup leads elsewhere."""
    with mounts.mounted(damaged, "--ro") as place:
        with contextlib.suppress(OSError):
            assert not [name for name in os.listdir(place) if "/" in name]
        assert not os.path.exists(f"{work}/up")
