# SPDX-License-Identifier: GPL-2.0-only
"""OUTBOARD_LOG_FILE gets the warnings of every kernel; conftest.py fails a test during which one
came.
"""

import os
import re
import subprocess

import pytest

from library import test_capi as capi
from support import host, images, kernel_log, modules, mounts, program
from support.program import good

pytestmark = pytest.mark.kernel_reports("this module's tests provoke the warnings")
TEXT = "asked for by a test"


@pytest.fixture(scope="module")
def warner(tmp_path_factory):
    """A driver that warns when it is loaded."""
    directory = str(tmp_path_factory.mktemp("warnings"))
    modules.build(os.path.join(program.REPOSITORY, "tests", "kernel", "warnings"), directory)
    return os.path.join(directory, "warn.ko")


def came(before) -> str:
    found = kernel_log.report_since(before)
    assert "WARNING: CPU: " in found and TEXT in found, found
    return found


@pytest.mark.parametrize("sandbox", [(), ("--no-sandbox",)], ids=["sandbox", "no sandbox"])
def test_of_a_command(work, warner, sandbox):
    image, before = images.make(f"{work}/disk.img", "ext4"), kernel_log.size()
    good(*sandbox, "ls", f"{image}:/", notes=["NO SANDBOX"])
    assert kernel_log.report_since(before) == ""
    good(*sandbox, "--component", warner, "ls", f"{image}:/", notes=["NO SANDBOX"])
    came(before)


@pytest.mark.needs_root
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_of_a_mount(ext4, warner):
    before = kernel_log.size()
    with mounts.mounted(ext4, "--component", warner):
        came(before)


def test_of_a_program_of_the_c_api(work, warner):
    """Nothing is on standard error; without the variable, nothing is anywhere."""
    runner, before = modules.compile_runner(work), kernel_log.size()
    command, variables = [runner, "0", warner, "--",
                          ""], {**os.environ, "VCPUS": "1", "COMMAND_LINE": ""}
    subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=True, timeout=60)
    found = came(before)
    assert found.startswith("outboard ") and found.count("WARNING: ") == 1, found
    before = kernel_log.size()
    del variables["OUTBOARD_LOG_FILE"]
    subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=True, timeout=60)
    assert kernel_log.size() == before


def test_of_a_lockup(work, warner):
    """The shipped kernel detects one case: a CPU that holds RCU up."""
    before = kernel_log.size()
    modules.Run(modules.compile_runner(work), [warner], parameters="stall=1",
                command_line="rcupdate.rcu_cpu_stall_timeout=3", timeout=300)
    found = kernel_log.report_since(before)
    assert re.search(r"INFO: rcu_\w+ (self-)?detected", found), found


def test_a_file_that_cannot_be_opened_is_none(work):
    done = subprocess.run([capi.library_program(work, "refused_test.c", "client.c")],
                          capture_output=True, text=True, timeout=60, check=True, env={
                              **os.environ, "LD_LIBRARY_PATH": capi.LIBRARIES,
                              "OUTBOARD_LOG_FILE": f"{work}/none/file"
                          })
    assert done.stderr == ""


SUITE = """
import subprocess
import pytest
def test_in_silence(): subprocess.run({silent}, check=True)
def test_with_a_warning(): subprocess.run({loud}, check=True)
@pytest.mark.kernel_reports("asked for")
def test_with_a_wanted_warning(): subprocess.run({loud}, check=True)
"""


def test_a_warning_fails_the_test(work, warner, pytester_of):
    image = images.make(f"{work}/disk.img", "ext4")
    silent, loud = (program.command(*words, "ls", f"{image}:/")
                    for words in ((), ("--component", warner)))
    said = pytester_of(SUITE.format(silent=silent, loud=loud))
    for words in ("3 passed, 1 error", "ERROR test_suite.py::test_with_a_warning", TEXT):
        assert words in said, said


# As the kernel writes them.
REPORTS = (
    "WARNING: CPU: 0 PID: 1 at kernel/fork.c:1 copy_process+0x1/0x2",
    "BUG: failure at fs/inode.c:1/evict()!",
    "BUG: sleeping function called from invalid context at mm/slab.h:1",
    "BUG: Bad page state in process cp  pfn:00042",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [cp:42]",
    "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!",
    "rcu: INFO: rcu_sched self-detected stall on CPU",
    "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
    "INFO: task cp:42 blocked for more than 120 seconds.",
    "INFO: possible recursive locking detected",
    "WARNING: suspicious RCU usage",
    "UBSAN: shift-out-of-bounds in fs/ext4/super.c:1:2",
    "BUG: KASAN: slab-out-of-bounds in evict+0x1/0x2",
    "list_add corruption. prev->next should be next",
)
NO_REPORTS = (
    "EXT4-fs warning (device vda): ext4_rename: 1: Deleting old file",
    "md0: WARNING: vda1 appears to be on the same physical disk as vda2.",
)
LINES_SUITE = """
import os
import pytest
@pytest.mark.parametrize("line", {lines})
def test_line(line):
    with open(os.environ["OUTBOARD_LOG_FILE"], "a", encoding="ascii") as log:
        log.write("outboard 42: " + line + "\\n")
"""


def test_each_kind_of_report_fails_the_test(pytester_of):
    said = pytester_of(LINES_SUITE.format(lines=REPORTS + NO_REPORTS))
    count = len(REPORTS)
    assert f"{count + len(NO_REPORTS)} passed, {count} errors" in said, said


LATE_SUITE = """
import subprocess
processes = []
def test_that_starts_it():
    command = ["sh", "-c", 'read line; exec "$@"', "sh", *{loud}]
    processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
def test_with_the_warning():
    processes[0].communicate(b"go\\n")
    assert processes[0].returncode == 0
def test_after_it(): pass
"""


def test_a_late_warning_fails_the_test_that_caused_it(work, warner, pytester_of):
    image = images.make(f"{work}/disk.img", "ext4")
    said = pytester_of(
        LATE_SUITE.format(loud=program.command("--component", warner, "ls", f"{image}:/")))
    for words in ("3 passed, 1 error", "ERROR test_suite.py::test_that_starts_it", TEXT):
        assert words in said, said
    assert "at the time of test_suite.py::test_with_the_warning" in said, said


@pytest.fixture
def pytester_of(tmp_path):
    """Runs a file of tests with the conftest.py of all tests."""

    def run(text):
        (tmp_path / "test_suite.py").write_text(text)
        for name in ("conftest.py", "pytest.ini", "support"):
            os.symlink(os.path.join(program.REPOSITORY, "tests", name), tmp_path / name)
        done = subprocess.run(
            [
                os.path.join(program.OUT, "venv", "bin", "python"), "-m", "pytest", "-p",
                "no:cacheprovider", "-ra", "."
            ], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=300, check=False, env={
                **os.environ, "OUTBOARD_OUT": program.OUT, "OUTBOARD_OUTCOMES": "",
                "PYTHONPATH": os.path.join(program.REPOSITORY, "tests")
            })
        return done.stdout

    return run
