# SPDX-License-Identifier: GPL-2.0-only
"""System calls of programs on a directory of the host, `outboard run --bind`, compared with those
of the host on the same file system.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from support import host, images, program, programs

pytestmark = [pytest.mark.long, pytest.mark.needs_root]
PYTHON = os.path.realpath(sys.executable)
CASES = os.path.join(program.REPOSITORY, "tests", "support", "posix_cases.py")
TRANSFERS = os.path.join(program.REPOSITORY, "tests", "support", "transfer_cases.py")
# What decides about files in sticky directories. Hosts differ, so both kernels get the host's.
SETTINGS = [f"/proc/sys/fs/protected_{name}"
            for name in ("fifos", "hardlinks", "regular", "symlinks")]
# Arguments: these settings with their values, then those of the Python that follows.
START = """
import os, sys
for setting, value in zip(sys.argv[1:9:2], sys.argv[2:9:2]):
    with open(setting, "w", encoding="ascii") as stream:
        stream.write(value)
os.execv(sys.executable, [sys.executable, *sys.argv[9:]])
"""


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    """Python without its library."""
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, PYTHON)
    shutil.copy(CASES, f"{tree}/cases.py")
    shutil.copy(TRANSFERS, f"{tree}/transfers.py")
    return images.make_ext4_of(os.path.join(str(tmp_path_factory.mktemp("image")), "root.img"),
                               tree)


def read(path):
    with open(path, encoding="ascii") as stream:
        return stream.read()


def make_directories(work):
    for name in ("theirs", "ours"):
        os.mkdir(f"{work}/{name}")
        os.chmod(f"{work}/{name}", 0o755)


def run_inside(work, image, *words, options=()):
    """The outcomes that a script prints, of our kernel in the directory `ours`."""
    library = sysconfig.get_path("stdlib")
    done = subprocess.run(
        program.command("run", *options, "--bind", f"{work}/ours:/cases", "--bind",
                        f"{library}:{library}:ro", image, "--", PYTHON, *words),
        capture_output=True, text=True, timeout=3000, check=False)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def different(theirs, ours):
    return {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}


def test_transfers_like_the_hosts(work, image):
    """About 300 reads and writes of all sizes, some of them past the page cache."""
    make_directories(work)
    theirs = json.loads(host.run(sys.executable, TRANSFERS, f"{work}/theirs", timeout=300).stdout)
    ours = run_inside(work, image, "/transfers.py", "/cases")
    assert len(theirs) > 200
    assert not different(theirs, ours)


@pytest.mark.timeout(3600)
def test_like_the_host(work, image):
    """About 4,000 cases. Outside of the sandbox, which refuses devices."""
    make_directories(work)
    theirs = json.loads(host.run(sys.executable, CASES, f"{work}/theirs", timeout=1500).stdout)
    settings = [word for path in SETTINGS for word in (path, read(path))]
    ours = run_inside(work, image, "-c", START, *settings, "/cases.py", "/cases",
                      options=["--no-sandbox"])
    differences = different(theirs, ours)
    first = dict(list(differences.items())[:3])
    assert len(theirs) > 3000
    assert not differences, (
        f"{len(differences)} cases differ; the host's and ours: {sorted(differences)[:40]}, as in "
        f"{json.dumps(first, indent=1)}")
