# SPDX-License-Identifier: GPL-2.0-only
"""Debian, installed into an image by debootstrap, which `outboard run` runs for an ordinary user. A
machine then boots from the image, with the kernel that was installed there.
"""

import os
import shutil

import pytest

from support import debian, host, images, program, programs
from support.mounts import AS_NOBODY

SUITE = "bookworm"
WORDS = ("--variant=minbase", "--include=linux-image-cloud-amd64")
# What debootstrap and the scripts of packages run before the new system has it itself.
PROGRAMS = ("ar", "basename", "cat", "chmod", "chown", "chroot", "comm", "cp", "cut", "date", "dd",
            "df", "dirname", "dpkg", "dpkg-deb", "dpkg-query", "dpkg-split", "echo", "env", "expr",
            "false", "find", "grep", "gzip", "head", "id", "ln", "losetup", "ls", "mawk", "md5sum",
            "mkdir", "mknod", "mktemp", "mount", "mv", "od", "perl", "printf", "readlink", "rm",
            "rmdir", "sed", "seq", "sha256sum", "sleep", "sort", "stat", "sync", "tail", "tar",
            "tee", "test", "touch", "tr", "true", "truncate", "umount", "uname", "uniq", "wc",
            "xargs", "xz", "zcat", "zstd")
TREES = ("/usr/share/debootstrap", "/usr/share/dpkg", "/usr/lib/x86_64-linux-gnu/perl-base")
FIRST = """#!/bin/sh
echo "first: Debian $(cat /etc/debian_version) on Linux $(uname -r)"
sync
"""
INSTALL = f"""
mount -o loop /host/root.img /target || exit
debootstrap {' '.join(WORDS)} --no-check-gpg --unpack-tarball=/host/debs.tgz {SUITE} /target ||
    {{ cat /target/debootstrap/debootstrap.log; exit 1; }}
cp /host/first /target/first && umount /target
"""

pytestmark = [
    pytest.mark.long, pytest.mark.timeout(5400), pytest.mark.needs_root,
    pytest.mark.needs("debootstrap", "mawk", "perl", "qemu-system-x86_64", "setpriv")
]


def write(path, text):
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)
    os.chmod(path, 0o755)


def fetch(directory):
    """The packages that debootstrap will want, in one archive."""
    archive = os.path.join(directory, "debs.tgz")
    done = host.run("debootstrap", *WORDS, f"--make-tarball={archive}", SUITE,
                    os.path.join(directory, "fetched"), debian.mirror(SUITE), ok=None, timeout=1800)
    if done.returncode:
        pytest.skip(f"Debian's mirror cannot be had: {done.stdout[-500:]}")
    os.chmod(archive, 0o644)


def make_system(work):
    """A root image with debootstrap and no packages."""
    tree = os.path.join(work, "tree")
    programs.make_root(tree, *PROGRAMS)
    for path in TREES:
        shutil.copytree(path, tree + path, symlinks=True)
    os.makedirs(f"{tree}/usr/sbin", exist_ok=True)
    shutil.copy(shutil.which("debootstrap"), f"{tree}/usr/sbin/debootstrap")
    os.symlink("mawk", f"{tree}/usr/bin/awk")
    # debootstrap insists on it, and needs none.
    write(f"{tree}/usr/bin/wget", "#!/bin/sh\nexit 1\n")
    for name in ("etc", "target", "var/lib/dpkg"):
        os.makedirs(os.path.join(tree, name))
    write(f"{tree}/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    write(f"{tree}/etc/group", "root:x:0:\n")
    write(f"{tree}/var/lib/dpkg/status", "")
    return images.make_ext4_of(os.path.join(work, "tools.img"), tree, 3072)


def boot(image, work):
    """Returns the words of a machine whose disk is the image."""
    listed = program.good("ls", f"{image}:/boot").out.split()
    kernel, = (name for name in listed if name.startswith("vmlinuz-"))
    start = f"initrd.img-{kernel.removeprefix('vmlinuz-')}"
    for name in (kernel, start):
        program.good("cp", f"{image}:/boot/{name}", os.path.join(work, name))
    line = "root=/dev/vda rw console=ttyS0 init=/first panic=-1 quiet"
    words = ("-kernel", kernel, "-initrd", start, "-append", line,
             "-drive", f"file={image},if=virtio,format=raw")
    return host.run("qemu-system-x86_64", "-m", "512", "-nographic", "-no-reboot", *words, cwd=work,
                    timeout=1800).stdout


def test_debian_installed_inside_boots(work):
    shared = os.path.join(work, "shared")
    os.mkdir(shared)
    fetch(shared)
    tools = make_system(work)
    image = os.path.join(shared, "root.img")
    program.good("mkfs", "ext4", image, "--size", "2G")
    write(os.path.join(shared, "first"), FIRST)
    for path in (work, shared, image):
        os.chmod(path, 0o777)
    done = program.run("run", "--memory", "2G", "--bind", f"{shared}:/host", tools, "--", "bash",
                       "-c", INSTALL, prefix=AS_NOBODY, timeout=3600)
    assert done.code == 0, str(done)
    images.check_ext4(image)
    said = boot(image, work)
    assert "first: Debian 12" in said and "cloud-amd64" in said, said[-3000:]
