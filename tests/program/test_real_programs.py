# SPDX-License-Identifier: GPL-2.0-only
"""Real programs: unchanged packages of Debian on ext4. Their results are those of the host."""

import glob
import os
import subprocess

import pytest

from support import real_root

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = sorted(glob.glob(os.path.join(HERE, "real", "*.sh")))

# Modules of Python's own tests, in which all must pass.
PYTHON = ("test_os", "test_select", "test_signal", "test_threading", "test_mmap")

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.needs("dpkg-query")]


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    return real_root.make(str(tmp_path_factory.mktemp("debian")))


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def on_the_host(script, work):
    directory = os.path.join(work, "host")
    os.mkdir(directory)
    return subprocess.run(["bash", "-c", script], cwd=directory, capture_output=True, text=True,
                          timeout=600, check=False)


@pytest.mark.parametrize("vcpus", (1, 4))
@pytest.mark.parametrize("path", SCRIPTS, ids=os.path.basename)
def test_as_on_the_host(root, work, path, vcpus):
    script = read(path)
    native = on_the_host(script, work)
    assert native.returncode == 0 and native.stdout, native
    # The scripts work on the root itself. Its changes stay in memory.
    inside = real_root.run(root, f"mkdir /work && cd /work\n{script}", vcpus=vcpus)
    assert (inside.out, inside.code) == (native.stdout, 0), inside


@pytest.mark.parametrize("module", PYTHON)
def test_tests_of_python(root, module):
    script = ("ip link set lo up; ulimit -n 1024; export HOME=/root TERM=dumb; cd /tmp;"
              " exec python3 -m test -v $1")
    done = real_root.run(root, script, module)
    if "No module named" in done.err + done.out:
        pytest.skip(f"the package {real_root.TESTS_OF_PYTHON} cannot be had")
    assert done.code == 0, done.out[-6000:]
