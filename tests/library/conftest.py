# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of tests of the library."""

import os
import shutil

import pytest

from support import host
from support.program import REPOSITORY


@pytest.fixture(scope="session")
def hello(tmp_path_factory):
    """The module of the documentation, built as the documentation says."""
    source = str(tmp_path_factory.mktemp("module") / "hello")
    shutil.copytree(os.path.join(REPOSITORY, "docs", "examples", "hello_module"), source)
    host.run("make", "-s", "-C", REPOSITORY, "modules", f"M={source}", timeout=600)
    return os.path.join(source, "hello.ko")
