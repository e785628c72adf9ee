# SPDX-License-Identifier: GPL-2.0-only
"""Tools of a Debian root, unmodified, by `outboard run`. Each script of debian/ checks its results
itself: a command that fails ends it.
"""

import glob
import os

import pytest

from support import debian_root, host

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = sorted(glob.glob(os.path.join(HERE, "debian", "*.sh")))

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.needs("mmdebstrap")]


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    image = debian_root.make(str(tmp_path_factory.mktemp("tools")))
    yield image
    os.unlink(image)


@pytest.mark.parametrize("path", SCRIPTS, ids=os.path.basename)
def test_script(image, path):
    with open(path, encoding="utf-8") as stream:
        script = stream.read()
    words = debian_root.words(image, "bash", "-x", "-c", f"{script}\necho whole")
    done = host.run(*words, ok=None, timeout=1800)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["whole"]), (
        done.stdout[-3000:] + done.stderr[-3000:])
