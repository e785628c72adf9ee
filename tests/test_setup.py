# SPDX-License-Identifier: GPL-2.0-only
"""kernel/build/setup.sh, which installs missing packages or names them."""

import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SETUP = os.path.join(os.path.dirname(HERE), "kernel", "build", "setup.sh")
MISSING = ("outboard-no-such-package", "outboard-nor-this-one")
# A stand-in for a tool: writes its words to a file.
RECORDER = '#!/bin/sh\necho "${{0##*/}} $*" >> {}/calls\n'


pytestmark = pytest.mark.needs("dpkg-query")


@pytest.fixture
def tools(work):
    """A directory with the host's programs, but neither apt-get nor sudo."""
    directory = os.path.join(work, "tools")
    os.mkdir(directory)
    for place in ("/usr/bin", "/bin"):
        for name in os.listdir(place):
            if name not in ("apt-get", "sudo") and not os.path.lexists(f"{directory}/{name}"):
                os.symlink(f"{place}/{name}", f"{directory}/{name}")
    return directory


def replace(tools: str, name: str, script: str):
    path = os.path.join(tools, name)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "w", encoding="ascii") as stream:
        stream.write(script)
    os.chmod(path, 0o755)


def set_up(work: str, tools: str, *packages: str) -> subprocess.CompletedProcess:
    with open(f"{work}/packages", "w", encoding="ascii") as stream:
        stream.write("# What is needed.\nbash\n\n" + "".join(f"{name}\n" for name in packages))
    return subprocess.run([SETUP, f"{work}/packages"], env={**os.environ, "PATH": tools},
                          capture_output=True, text=True, check=False)


def calls(work: str) -> list:
    with open(f"{work}/calls", encoding="ascii") as stream:
        return stream.read().splitlines()


def test_nothing_is_missing(work, tools):
    done = set_up(work, tools)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("user", ["0", "1000"])
def test_one_line_names_what_is_missing(work, tools, user):
    """Without apt-get, and for a user without sudo."""
    replace(tools, "id", f"#!/bin/sh\necho {user}\n")
    if user != "0":
        replace(tools, "apt-get", RECORDER.format(work))
    done = set_up(work, tools, *MISSING)
    assert done.returncode == 1 and not os.path.exists(f"{work}/calls")
    assert done.stdout == "" and done.stderr.splitlines() == [
        f"outboard: please install these packages, then try again: {' '.join(MISSING)}"]


@pytest.mark.parametrize("user", ["0", "1000"])
def test_what_is_missing_is_installed(work, tools, user):
    """By root, or by sudo."""
    replace(tools, "id", f"#!/bin/sh\necho {user}\n")
    replace(tools, "sudo", RECORDER.format(work) + 'shift\nexec "$@"\n')
    replace(tools, "apt-get", RECORDER.format(work))
    done = set_up(work, tools, *MISSING)
    assert done.returncode == 0, done
    found = calls(work)
    assert any(call.startswith("sudo ") for call in found) == (user != "0")
    *_, last = [call for call in found if call.startswith("apt-get ")]
    assert " install " in last and last.endswith(" ".join(MISSING))


def test_an_installation_that_fails(work, tools):
    replace(tools, "id", "#!/bin/sh\necho 0\n")
    replace(tools, "apt-get", "#!/bin/sh\necho no route to any mirror\nexit 100\n")
    done = set_up(work, tools, *MISSING)
    assert done.returncode == 1 and "no route to any mirror" in done.stderr
    assert MISSING[0] in done.stderr.splitlines()[-1]
