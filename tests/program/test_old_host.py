# SPDX-License-Identifier: GPL-2.0-only
"""The program on older hosts: in a guest with Debian 12's own kernel, 6.1, which has Landlock's
second version; without Landlock; and without user namespaces. It works there, and what the host
has of the sandbox holds.
"""

import errno
import os
import re

import pytest
from support import guest, host, images, modules, program

HERE = os.path.join(program.REPOSITORY, "tests", "program", "sandbox")
REFUSED = (-errno.EPERM, -errno.EACCES)
# What the guest's processor must have: the library is made for today's machines.
OPTIONS = ("-cpu", "max", "-m", "1024")
NO_LANDLOCK = "lsm=lockdown,yama"

pytestmark = pytest.mark.skipif(not guest.usable(), reason="no QEMU, kernel or tools for a guest")

SCRIPT = """
mount -t securityfs none /sys/kernel/security
echo "host: $(uname -r) $(cat /sys/kernel/security/lsm)"
export HOME=$PWD XDG_CACHE_HOME=$PWD/cache PATH=$PWD:$PATH
echo "192.0.2.1 victim" > /etc/hosts
outboard info disk.img
outboard ls -l disk.img:/
outboard cp -a disk.img:/tree out
cmp out/file tree/file
outboard cp -r tree disk.img:/new
outboard fsck -y disk.img
outboard tar-out disk.img:/tree | tar -t
outboard mkfs ext4 made.img --from tree
e2fsck -fn made.img
attempts() {
	echo "attempts: $1"
	shift
	outboard -v --component escape.ko --type escape "$@" 2>&1 | grep escape: || true
	[ ! -e escaped ] || echo "escape: made_a_file 1"
	rm -f escaped
	echo "end of attempts"
}
mkdir inside
touch kept
attempts look ls disk.img:/
attempts copy cp -a disk.img:/ inside
echo 0 > /proc/sys/user/max_user_namespaces
outboard cat disk.img:/tree/file | cmp - tree/file
outboard cp disk.img:/tree/file copy
cmp copy tree/file
outboard fsck -n disk.img
attempts alone ls disk.img:/
"""


def attempts(said: str, name: str) -> dict:
    """The result of each attempt to leave the sandbox."""
    text = said.partition(f"attempts: {name}\n")[2].partition("end of attempts")[0]
    found = {word: int(result)
             for word, result in re.findall(r"escape: (\w+) (-?\d+)$", text, re.MULTILINE)}
    assert found.pop("alive", None) == 1, said
    assert found.pop("clone3") == -errno.ENOSYS, found
    return found


def run(work: str, *words: str) -> str:
    """Runs the script in the guest. `words`: more of its kernel's command line."""
    os.mkdir(f"{work}/drivers")
    modules.build(HERE, f"{work}/drivers")
    os.mkdir(f"{work}/tree")
    with open(f"{work}/tree/file", "w", encoding="ascii") as stream:
        stream.write("from an old host\n" * 1000)
    os.makedirs(f"{work}/of/tree")
    host.run("cp", "-a", f"{work}/tree", f"{work}/of")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/of", 32)
    return guest.run(SCRIPT, [], [program.PROGRAM, image, f"{work}/tree",
                                  f"{work}/drivers/escape.ko"], OPTIONS, words=words)


def refused(found: dict) -> bool:
    return len(found) >= 23 and all(result in REFUSED for result in found.values())


def test_older_landlock(work):
    said = run(work)
    assert re.search(r"host: 6\.1\..*landlock", said), said
    for name in ("look", "copy", "alone"):
        assert refused(found := attempts(said, name)), (name, found)


def test_no_landlock(work):
    """Commands that only look need no file: seccomp keeps them in."""
    said = run(work, NO_LANDLOCK)
    assert re.search(r"host: 6\.1\.", said) and "landlock" not in said, said
    for name in ("look", "alone"):
        assert refused(found := attempts(said, name)), (name, found)
