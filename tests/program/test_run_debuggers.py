# SPDX-License-Identifier: GPL-2.0-only
"""The host's own gdb and strace debug programs of an image: `outboard run`."""

import os
import shutil
import subprocess
import sysconfig

import pytest

from support import host, images, program, programs

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = ("cat", "gdb", "ls", "seq", "strace", "wc")
# What gdb opens by itself: its own Python files, and the library that knows threads.
GDB_DATA = "/usr/share/gdb"
THREADS = "/lib/x86_64-linux-gnu/libthread_db.so.1"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("gdb") or not shutil.which("strace"),
                       reason="this host has no gdb or no strace"),
]


def copy_python(tree):
    """The modules with which the Python inside of gdb starts."""
    library = sysconfig.get_path("stdlib", vars={"installed_base": "/usr", "base": "/usr"})
    for name in os.listdir(library):
        path = os.path.join(library, name)
        if name.endswith(".py"):
            programs.copy_in(tree, path)
        elif name in ("collections", "encodings", "importlib", "re"):
            shutil.copytree(path, os.path.join(tree, path.lstrip("/")))


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, *TOOLS)
    copy_python(tree)
    shutil.copytree(GDB_DATA, os.path.join(tree, GDB_DATA.lstrip("/")), symlinks=True)
    programs.copy_in(tree, THREADS)
    debugged = os.path.join(tree, "bin", "debugged")
    host.run("gcc", "-g", "-O0", "-pthread", "-o", debugged, os.path.join(HERE, "debugged.c"))
    path = os.path.join(str(tmp_path_factory.mktemp("image")), "root.img")
    return images.make_ext4_of(path, tree, 256)


def inside(image, text):
    """Runs a script of bash in the image. Returns what it has printed."""
    done = subprocess.run(program.command("run", "--memory", "1G", image, "--", "bash", "-c", text),
                          capture_output=True, text=True, timeout=300, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done
    return done.stdout + done.stderr


def gdb(image, arguments, *commands):
    words = "".join(f" -ex '{command}'" for command in commands)
    return inside(image, f"gdb -nx -batch{words} --args debugged {arguments} 2>&1")


def test_breakpoints(image):
    said = gdb(image, "count", "break add", "run", "backtrace", "print a+b", "finish",
               "info registers rip rax", "continue")
    assert "#0  add (a=20, b=22)" in said and "in count ()" in said, said
    assert "$1 = 42" in said and "Value returned is $2 = 42" in said, said
    assert "sum 42" in said and "exited normally" in said, said


def test_watchpoint_by_single_steps(image):
    said = gdb(image, "count", "set can-use-hw-watchpoints 0", "break add", "run",
               "watch counter", "continue", "continue")
    assert "Old value = 0" in said and "New value = 42" in said, said


def test_breakpoints_of_the_processor_are_refused(image):
    said = gdb(image, "count", "break add", "run", "hbreak in_child", "continue", "kill")
    assert "Couldn't write debug register: No space left on device" in said, said


def test_step_through_a_handler_and_a_restarted_call(image):
    said = gdb(image, "signals", "break before_read", "run", "finish", "break handler",
               "continue", "print $_siginfo.si_signo", "print (long)$rax", "continue", "backtrace",
               "finish", "stepi", "stepi", "x/i $pc", "print (long)$rax", "delete", "continue")
    assert "$1 = 10" in said and "$2 = -512" in said, said
    assert "<signal handler called>" in said and "in signals () at" in said, said
    # rt_sigreturn has led to the call, with its number.
    assert ":\tsyscall" in said and "$3 = 0" in said, said
    assert "handled 10" in said and "exited normally" in said, said


def test_step_into_a_handler(image):
    """The next instruction after a signal stop is the first one of the handler."""
    said = gdb(image, "signals", "run", "stepi", "backtrace 2", "stepi", "stepi", "continue")
    assert "received signal SIGUSR1" in said and "#0  handler (" in said, said
    assert "handled 10" in said and "exited normally" in said, said


def test_follow_a_child(image):
    said = gdb(image, "fork", "set follow-fork-mode child", "break in_child", "run", "backtrace",
               "continue")
    assert "#0  in_child (value=7)" in said and "in fork_one ()" in said, said
    assert "exited with code 07" in said, said


def test_core_dump(image):
    said = inside(image, "cd /tmp; debugged crash; echo status $?; ls core && gdb -nx -batch"
                         " -ex 'info registers r12' -ex 'print $xmm3.v2_int64[0]'"
                         " -ex 'thread apply all backtrace' /bin/debugged core 2>&1")
    assert "status 139" in said and "terminated with signal SIGSEGV" in said, said
    assert "0x123456789abc" in said and f"= {0x123456789abc}" in said, said
    assert "in crash_here (nowhere=0x0)" in said or "crash_here (nowhere=" in said, said
    assert "wait_for_ever (" in said and said.count("\nThread ") == 2, said


def test_strace_of_a_pipeline(image):
    said = inside(image, "strace -f -o /tmp/trace sh -c 'seq 1000 | wc -l' && cat /tmp/trace")
    assert said.startswith("1000\n"), said
    assert said.count("execve(") >= 3 and said.count("+++ exited with 0 +++") == 3, said
    assert "wait4(" in said and 'write(1, "1000\\n", 5' in said, said
    assert "syscall_0x" not in said and "???" not in said, said
