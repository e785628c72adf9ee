# SPDX-License-Identifier: GPL-2.0-only
"""`outboard run` at a terminal: a real one outside, on which the user types, and one of the kernel
inside, with sizes, signals and job control.
"""

import os
import signal
import subprocess

import pytest

from support import images, program, programs
from support.patience import wait_until
from support.terminal import SIZE, Terminal


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, "cat", "sleep", "stty", "tty", "true")
    path = os.path.join(str(tmp_path_factory.mktemp("image")), "root.img")
    return images.make_ext4_of(path, tree)


def at_terminal(*words, **streams):
    """A command of the program at a terminal of its own."""
    return Terminal(*program.command(*words), **streams)


def shell(image, **streams):
    words = ("run", "-e", "PS1=ready> ", image, "--", "bash", "--norc", "--noediting", "-i")
    started = at_terminal(*words, **streams)
    started.expect(b"ready> ")
    return started


def test_the_program_has_a_terminal(image):
    with shell(image) as terminal:
        assert terminal.settings() != terminal.before
        terminal.type(b"tty; stty size; echo end $((1+1)) > /dev/tty\r")
        terminal.expect(b"/dev/pts/0\r\n30 90\r\n")
        terminal.expect(b"end 2\r\n")
        terminal.type(b"exit 7\r")
        assert terminal.running.wait(60) == 7
        assert terminal.settings() == terminal.before


def test_keys_are_signals_inside(image):
    with shell(image) as terminal:
        terminal.type(b"cat\r")
        terminal.type(b"one\r")
        terminal.expect(b"one\r\none\r\n")
        terminal.type(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.expect(b"ready> ")
        terminal.type(b"jobs\r")
        terminal.expect(b"Stopped")
        terminal.expect(b"ready> ")
        terminal.type(b"fg\r")
        terminal.expect(b"fg\r\ncat\r\n")
        terminal.type(b"two\r")
        terminal.expect(b"two\r\ntwo\r\n")
        terminal.type(b"\x03")
        terminal.expect(b"ready> ")
        terminal.type(b"echo status $?\r")
        terminal.expect(f"status {128 + signal.SIGINT}\r\n".encode())
        terminal.type(b"\x04")
        assert terminal.running.wait(60) == 0


def test_a_new_size_is_passed_on(image):
    text = "trap 'echo now; stty size' WINCH; echo set; while :; do sleep 0.05; done"
    with at_terminal("run", image, "--", "bash", "-c", text) as terminal:
        terminal.expect(b"set\r\n")
        terminal.set_size(20, 70)
        terminal.expect(b"now\r\n20 70\r\n")


def test_a_terminal_that_goes_away(image):
    with shell(image) as terminal:
        terminal.close()
        assert terminal.running.wait(60) == 128 + signal.SIGHUP


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGHUP))
def test_settings_are_restored_after_a_signal(image, number):
    with at_terminal("run", image, "--", "sleep", "1000") as terminal:
        wait_until(lambda: terminal.settings() != terminal.before, "the terminal is raw")
        terminal.running.send_signal(number)
        assert terminal.running.wait(60) == 128 + number
        assert terminal.settings() == terminal.before


def test_settings_are_restored_by_a_second_signal(image):
    """The program ignores the first."""
    text = "trap '' TERM INT; echo deaf; while :; do sleep 0.1; done"
    with at_terminal("run", image, "--", "bash", "-c", text) as terminal:
        terminal.expect(b"deaf")
        terminal.running.send_signal(signal.SIGTERM)
        wait_until(lambda: terminal.running.send_signal(signal.SIGTERM) or
                   terminal.running.poll() is not None, "the process has ended")
        assert terminal.running.returncode == -signal.SIGTERM
        assert terminal.settings() == terminal.before


def test_a_standard_error_of_another_kind_stays_apart(image, work):
    path = os.path.join(work, "errors")
    text = "echo shown; echo apart >&2"
    with (open(path, "wb") as errors,
          at_terminal("run", image, "--", "bash", "-c", text, stderr=errors) as shown):
        shown.expect(b"shown\r\n")
        assert shown.running.wait(60) == 0
    with open(path, "rb") as errors:
        assert errors.read() == b"apart\n"


def test_without_a_terminal_there_is_none(image):
    done = subprocess.run(program.command("run", image, "--", "tty"), input=b"",
                          capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"not a tty\n")


def test_a_terminal_that_is_asked_for(image):
    words = program.command("run", "-it", image, "--", "bash", "-c", "tty; cat")
    done = subprocess.run(words, input=b"typed\n", capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done
    lines = done.stdout.decode().split("\r\n")
    assert "/dev/pts/0" in lines and lines.count("typed") == 2, done


def test_a_further_program_has_a_terminal(image, tmp_path, monkeypatch):
    """`outboard exec` at a terminal: sizes, signals by keys, raw mode that ends."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    begun = program.run("run", "-d", "--name", "far", image, "--", "sleep", "1000")
    assert begun.code == 0, begun
    words = ("exec", "-e", "PS1=ready> ", "far", "--", "bash", "--norc", "--noediting", "-i")
    with at_terminal(*words) as terminal:
        terminal.expect(b"ready> ")
        terminal.type(b"tty; stty size\n")
        terminal.expect(b"/dev/pts/")
        terminal.expect(b"%d %d\r\n" % SIZE)
        terminal.set_size(11, 22)
        terminal.type(b"until [ \"$(stty size)\" = '11 22' ]; do sleep 0.01; done; echo fi''ts\n")
        terminal.expect(b"fits\r\n")
        terminal.type(b"cat\n")
        terminal.type(b"one\n")
        terminal.expect(b"one\r\none\r\n")
        terminal.type(b"\x03")
        terminal.expect(b"ready> ")
        terminal.type(b"exit 5\n")
        assert terminal.running.wait(60) == 5
        assert terminal.settings() == terminal.before
    assert program.run("stop", "--time", "0", "far").code == 0
