# SPDX-License-Identifier: GPL-2.0-only
"""A directory of the host as the root of programs: `outboard run --root`."""

import os
import shutil
import subprocess

import pytest

from support import program, programs

# The bit of CAP_SYS_ADMIN: rights for owners of files stay, if the user has them.
ADMIN = 1 << 21
PROGRAMS = ("bash", "cat", "ls", "mkdir", "rm", "sleep", "stat", "true")


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, *PROGRAMS)
    os.makedirs(os.path.join(tree, "etc"))
    with open(os.path.join(tree, "etc", "text"), "w", encoding="ascii") as stream:
        stream.write("of the directory\n")
    return tree


def run(*words, given=b""):
    """The words of `run`, to the program's end."""
    done = subprocess.run(program.command("run", *words), input=given, capture_output=True,
                          timeout=120, check=False)
    done.stderr = done.stderr.decode()
    return done


def script(tree, text, *words):
    return run("--root", tree, *words, "--", "bash", "-c", text)


def state(tree):
    """All names below a directory, with what stat(2) says of them."""
    found = {}
    for directory, names, files in os.walk(tree):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            stat = os.lstat(path)
            found[path] = (stat.st_mode, stat.st_uid, stat.st_size, stat.st_mtime_ns)
    return found


def test_the_directory_stays_as_it_is(tree):
    before = state(tree)
    done = script(tree, "cat /etc/text && echo new > /etc/text && cat /etc/text; rm -r /usr/bin/ls;"
                        " mkdir /new && [ ! -e /usr/bin/ls ] && stat -c '%u %F' /new /etc")
    assert done.stdout == b"of the directory\nnew\n0 directory\n0 directory\n", done
    assert state(tree) == before
    # Nor with the right to write: `ro` rules that out.
    assert script(tree, "echo a > /etc/text", "--ro").returncode == 0
    assert state(tree) == before


def test_changes_that_stay(tree, work):
    copy = shutil.copytree(tree, os.path.join(work, "copy"), symlinks=True)
    done = script(copy, "echo kept > /kept; rm /etc/text; mkdir /var; exit 3", "--rw")
    assert (done.returncode, done.stderr) == (3, "")
    with open(os.path.join(copy, "kept"), encoding="ascii") as stream:
        assert stream.read() == "kept\n"
    assert not os.path.exists(os.path.join(copy, "etc", "text"))
    assert os.lstat(os.path.join(copy, "var")).st_uid == os.geteuid()
    assert script(copy, "cat /kept").stdout == b"kept\n"


def test_nothing_but_the_directory(tree, work):
    """Links lead to files of the root, not to those of the host; the process is sandboxed."""
    copy = shutil.copytree(tree, os.path.join(work, "copy"), symlinks=True)
    with open(os.path.join(work, "other"), "w", encoding="ascii") as stream:
        stream.write("out of reach\n")
    os.symlink("../other", os.path.join(copy, "up"))
    os.symlink(os.path.join(work, "other"), os.path.join(copy, "absolute"))
    done = script(copy, "cat /up /absolute /../other")
    assert done.returncode == 1 and not done.stdout, done
    words = program.command("run", "--root", copy, "--", "bash", "-c", "echo ready; read line")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        with open(f"/proc/{running.pid}/status", encoding="ascii") as lines:
            status = dict(line.split(":\t", 1) for line in lines)
        assert status["Seccomp"].strip() == "2" and not int(status["CapEff"], 16) & ADMIN, status
        running.stdin.close()
        assert running.wait(60) == 1


def test_a_directory_that_goes(tree, work):
    """Programs get errors; the command ends as its program does."""
    copy = shutil.copytree(tree, os.path.join(work, "copy"), symlinks=True)
    text = "echo ready; read line; cat /etc/text; echo $? > /dev/stderr; exit 4"
    words = program.command("run", "--root", copy, "--", "bash", "-c", text)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        shutil.rmtree(copy)
        output, errors = running.communicate(b"\n", timeout=60)
    assert (running.returncode, output) == (4, b""), errors
    assert errors.splitlines()[-1] != b"0"


def test_ten_at_once(tree):
    words = program.command("run", "--root", tree, "--", "bash", "-c", "echo a > /mine; cat /mine")
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(10)]
    for one in running:
        assert one.communicate(timeout=120)[0] == b"a\n" and one.returncode == 0


@pytest.mark.parametrize("write", ((), ("--rw",)))
@pytest.mark.parametrize("name,mentions", (
    ("nothing", "No such file or directory; name a directory"),
    ("file", "it is no directory; if it is an image, name it as one")))
def test_no_directory(work, name, mentions, write):
    with open(os.path.join(work, "file"), "w", encoding="ascii"):
        pass
    path = os.path.join(work, name)
    done = run("--root", path, *write, "--", "true")
    assert done.returncode == 125 and f"cannot use {path} as the root" in done.stderr, done
    assert mentions in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert name != "nothing" or not os.path.exists(path)


@pytest.mark.parametrize("words,mentions", (
    (("--root", "d", "a.img", "--", "true"), "cannot be used with"),
    (("--", "true"), "<IMAGE>"),
    (("--root", "", "--", "true"), "--root")))
def test_one_of_both(words, mentions):
    done = run(*words)
    assert done.returncode == 2 and mentions in done.stderr, done


def test_no_such_program(tree):
    done = run("--root", tree, "--", "nothing")
    assert done.returncode == 127 and f"cannot run nothing of {tree}: " in done.stderr, done
