# SPDX-License-Identifier: GPL-2.0-only
"""A file system that is linked into the kernel (BUILTIN="EXT4_FS XFS_FS"), where no component can
be loaded.

`tests/run --long` builds this variant before, without its modules. See docs/components.md.
"""

import os

import pytest

from library import test_capi as capi
from support import host, images

LIBRARIES = os.path.join(capi.LIBRARIES, "vfs-builtin")

BUILT = os.path.exists(os.path.join(LIBRARIES, "liboutboard.so"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not BUILT,
                       reason="tests/run --long vfs-builtin has not been run")
]


def test_ext4_is_linked_in(work):
    program = capi.library_program(work, "builtin_test.c", "client.c")
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    for number in range(3):
        capi.run(program, image, "ext4", str(number), timeout=60, LD_LIBRARY_PATH=LIBRARIES,
                 OUTBOARD_COMPONENTS=os.path.join(work, "no-components"))
        assert "needs_recovery" not in host.run("dumpe2fs", "-h", image).stdout
        host.run("e2fsck", "-f", "-n", image)
    assert "file199" in host.run("debugfs", "-R", "ls -p /round2", image).stdout
