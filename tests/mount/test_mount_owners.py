# SPDX-License-Identifier: GPL-2.0-only
"""Permissions on `outboard mount`: ordinary users, owners that are mapped or have no mapping."""

import os

import pytest

from support import host, mounts, program
from support.json_output import items
from support.mounts import AS_NOBODY, NOBODY, check, mounted, options_of
from support.program import good, run

pytestmark = mounts.MARKS


@pytest.mark.needs("fusermount3", "setpriv")
@pytest.mark.usefixtures("fuse_for_all")
def test_an_ordinary_user_does_everything_in_his_mount(work, ext4):
    with mounted(ext4) as directory:
        os.mkdir(f"{directory}/secret", 0o700)
    os.chown(ext4, NOBODY, NOBODY)
    with mounted(ext4, prefix=AS_NOBODY) as directory:
        host.run(*AS_NOBODY, "sh", "-ec",
                 f"cd {directory}; : > secret/mine; chown 7:8 secret/mine; chmod 4755 "
                 "secret/mine; mkdir d; ln -s x l; cp -r /usr/share/zoneinfo/Europe d")
        # Nobody could run it, not even root. The list is not the host's business, but the mode that
        # comes with it is.
        host.run(
            *AS_NOBODY, "sh", "-ec",
            f"cd {directory}; : > plain; test -r plain; ! test -x plain; setfacl -m u:5:rwx plain; "
            "test -x plain; stat -c mode=%a plain | grep -qx mode=674")
        with pytest.raises(PermissionError):
            os.listdir(directory)
    with mounted(ext4, "-o", "uid=0,gid=5", prefix=AS_NOBODY) as directory:
        host.run(*AS_NOBODY, "sh", "-ec", f"echo x > {directory}/given")
    check(ext4, "ext4")
    listed = good("ls", "-l", f"{ext4}:/", f"{ext4}:/secret").out
    assert "rwsr-xr-x 1 7 8" in listed and "1 0 5 2" in " ".join(listed.split()), listed
    assert run("mount", "-o", "suid", ext4, work, prefix=AS_NOBODY).code == 2


@pytest.mark.needs("setpriv")
def test_rights_count_if_asked_for(ext4):
    """Those of root that has given its capabilities up, that is: with them it may do everything."""
    weak = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    with mounted(ext4) as directory, open(f"{directory}/closed", "wb"):
        os.chmod(f"{directory}/closed", 0)
        assert "default_permissions" not in options_of(directory)
        host.run(*weak, "cat", f"{directory}/closed")
    for options in ("default_permissions", "allow_other", "idmap=b:0:0:9", "ro"):
        with mounted(ext4, "-o", options) as directory:
            assert "default_permissions" in options_of(directory)
            host.run(*weak, "cat", f"{directory}/closed", ok=(1,))


@pytest.mark.needs("setfacl", "unshare")
def test_access_lists_of_root_in_a_container(work, ext4):
    """Root of a user namespace, to whom the host gives lists only where it checks them."""
    directory = f"{work}/mount"
    os.mkdir(directory)
    script = (
        'set -e; "$0" mount "$1" "$2"; : > "$2/file"; setfacl -m g:0:rx "$2/file"; getfacl -n '
        '"$2/file"; "$0" umount "$2"')
    shown = host.run("unshare", "--user", "--map-root-user", "--mount",
                     "sh", "-c", script, program.PROGRAM, ext4, directory).stdout
    assert "group:0:r-x" in shown, shown
    check(ext4, "ext4")


def test_mapped_owners(ext4):
    with mounted(ext4, "-o", "idmap=b:0:0:1 u:5:70000:10 g:5:80000:10") as directory:
        open(f"{directory}/file", "wb").close()
        os.chown(f"{directory}/file", 70001, 80002)
        found = os.stat(f"{directory}/file")
        assert (found.st_uid, found.st_gid) == (70001, 80002)
        with pytest.raises(OSError):
            os.chown(f"{directory}/file", 4, 4)
    assert items(good("stat", "--json", f"{ext4}:/file"))[0]["uid"] == 6


def test_what_has_no_owner_here_is_nobodys(ext4):
    with mounted(ext4) as directory:
        with open(f"{directory}/secret", "w", encoding="ascii") as stream:
            stream.write("of the image's root")
        os.chmod(f"{directory}/secret", 0o600)
        os.mkdir(f"{directory}/public")
        os.chmod(f"{directory}/public", 0o777)
    with mounted(ext4, "-o", "allow_other,idmap=b:1000:1000:1") as directory:
        found = os.stat(f"{directory}/secret")
        assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)
        host.run(*AS_NOBODY, "cat", f"{directory}/secret", ok=(1,))
        host.run(*AS_NOBODY, "chmod", "777", f"{directory}/secret", ok=(1,))
        # Nor has who has no number in the image files there.
        host.run(*AS_NOBODY, "touch", f"{directory}/public/theirs", ok=(1,))
        assert os.listdir(f"{directory}/public") == []
    assert good("find", f"{ext4}:/secret", "-printf", "%m").out == "600"


def test_others_come_with_allow_other(ext4):
    with mounted(ext4, "-o", "allow_other") as directory:
        os.mkdir(f"{directory}/public")
        os.chmod(f"{directory}/public", 0o1777)
        host.run(*AS_NOBODY, "touch", f"{directory}/public/mine")
        assert os.stat(f"{directory}/public/mine").st_uid == NOBODY
        host.run(*AS_NOBODY, "touch", f"{directory}/not", ok=(1,))
