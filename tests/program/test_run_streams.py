# SPDX-License-Identifier: GPL-2.0-only
"""What programs of `outboard run` and `exec` write to standard output and standard error stays in
order if both are one file or pipe, and apart if they are not.
"""

import os
import subprocess

import pytest

from support import images, program, programs
from support.patience import wait_until

# Each line by a write of its own, to the output and to the errors in turn.
LINES = 400
SCRIPT = f"for ((i = 0; i < {LINES}; i += 2)); do echo $i; echo $((i + 1)) >&2; done"
IN_ORDER = "".join(f"{i}\n" for i in range(LINES)).encode()
EVEN = "".join(f"{i}\n" for i in range(0, LINES, 2)).encode()
ODD = "".join(f"{i}\n" for i in range(1, LINES, 2)).encode()


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, "sleep", "stat")
    path = os.path.join(str(tmp_path_factory.mktemp("image")), "root.img")
    return images.make_ext4_of(path, tree)


@pytest.fixture(name="background")
def fixture_background(image, tmp_path, monkeypatch):
    """The name of a run in the background, whose program writes the lines first."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    words = ("run", "-d", "--name", "far", image, "--", "bash", "-c", f"{SCRIPT}; sleep 1000")
    begun = program.run(*words)
    assert begun.code == 0, begun
    yield "far"
    program.run("stop", "--time", "0", "far")


def run(words, text, stdout, stderr):
    done = subprocess.run(program.command(*words, "--", "bash", "-c", text), timeout=120,
                          stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=True)
    return done.stdout, done.stderr


def check(words, work):
    """The same for a command that runs a program."""
    assert run(words, SCRIPT, subprocess.PIPE, subprocess.STDOUT) == (IN_ORDER, None)
    assert run(words, SCRIPT, subprocess.PIPE, subprocess.PIPE) == (EVEN, ODD)
    same = "test $(stat -L -c %i /proc/$$/fd/1) = $(stat -L -c %i /proc/$$/fd/2)"
    run(words, same, subprocess.PIPE, subprocess.STDOUT)
    run(words, f"! {same}", subprocess.PIPE, subprocess.PIPE)
    path = os.path.join(work, "log")
    with open(path, "wb") as log:
        log.write(b"before\n")
        log.flush()
        run(words, SCRIPT, log, log)
        log.seek(0, os.SEEK_END)
        log.write(b"after\n")
    with open(path, "rb") as log:
        assert log.read() == b"before\n" + IN_ORDER + b"after\n"
    # One file, but two ways to write.
    with open(path, "wb") as over, open(path, "ab") as behind:
        run(words, f"! {same}", over, behind)


def test_of_run(image, work):
    check(("run", image), work)


def test_of_exec(background, work):
    check(("exec", background), work)


def test_of_a_log(background):
    log = ("logs", background)
    wait_until(lambda: program.run(*log).out.count("\n") == LINES, "all lines")
    assert program.run(*log).out.encode() == IN_ORDER
