# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of all tests: the program must exist; big scratch space goes away after each test."""

import os
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import host, program  # noqa: E402  (needs the path above)


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_root: needs root on the host (mounts, owners, device nodes)")
    config.addinivalue_line("markers", "needs(*tools): needs these host tools")


def pytest_runtest_setup(item):
    if item.get_closest_marker("needs_root") and not host.IS_ROOT:
        pytest.skip("needs root on the host")
    for marker in item.iter_markers("needs"):
        for tool in marker.args:
            if not host.have(tool):
                pytest.skip(f"the tool {tool} is not installed")


@pytest.fixture(autouse=True, scope="session")
def program_exists():
    if not os.access(program.PROGRAM, os.X_OK):
        pytest.exit(f"{program.PROGRAM} is missing: run make first", returncode=2)


@pytest.fixture
def work():
    """A scratch directory on disk, removed after the test, with everything in it."""
    base = os.environ.get("OUTBOARD_TMP") or os.path.join(program.OUT, "test-tmp")
    os.makedirs(base, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="t", dir=base)
    os.chmod(directory, 0o755)
    yield directory
    shutil.rmtree(directory)
