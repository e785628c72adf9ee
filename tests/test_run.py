# SPDX-License-Identifier: GPL-2.0-only
"""The runner itself: tests/run and tests/streams.py, on a tiny repository with tiny tests and
stand-ins for the tools.
"""

import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from support.patience import wait_until

HERE = os.path.dirname(os.path.abspath(__file__))

# A stand-in ends with 1 if its name and one of its words are in $BROKEN. Stand-ins for gcc make a
# program that ends well.
STAND_IN = """#!/bin/bash
for word in "$@"; do
	[ "$BROKEN" != "${0##*/} $word" ] || exit 1
done
[ "${0##*/}" != nm ] || echo '0 T ob_boot'
while [ $# -gt 0 ]; do
	[ "$1" != -o ] || install -m 755 /bin/true "$2"
	shift
done
"""
TOOLS = ("shellcheck", "cargo", "make", "gcc", "nm")
# The head of the tiny tests. `state` counts how often each has run.
HEAD = """
import os, pytest
def times(name):
    with open(os.path.join(os.path.dirname(__file__), "state." + name), "a+") as stream:
        stream.write("x")
        return stream.tell()
"""
STEADY = "def test_steady(): pass\n"
UNSTEADY = "def test_unsteady(): assert times('unsteady') > 1, 'the first time'\n"
UNSTEADY_SETUP = """
@pytest.fixture
def late():
    assert times('late') > 1, 'the first setup'
def test_late(late): pass
"""
UNSTEADY_TEARDOWN = """
@pytest.fixture
def busy():
    yield
    assert times('busy') > 1, 'the first teardown'
def test_busy(busy): pass
"""
SHARED_SETUP = """
@pytest.fixture(scope="module")
def shared():
    assert times('shared') > 1, 'the first setup'
@pytest.mark.parametrize("number", range(7))
def test_with_others(shared, number): pass
"""
BROKEN = "def test_broken(): assert not times('broken'), 'each time'\n"
THEN_SKIPPED = """
def test_evasive():
    if times('evasive') > 1:
        pytest.skip('not again')
    assert False, 'the first time'
"""
SKIPPED = "def test_skipped(): pytest.skip('no such device')\n"
LONG = "@pytest.mark.long\ndef test_long(): assert False, 'a long test'\n"


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)


class Repository:
    """The runner, and beside it as little as it needs."""

    def __init__(self, path):
        self.path = path
        for name in ("run", "streams.py", "gate.py", "line_lengths.py", "times_page.py",
                     "support/__init__.py", "support/outcomes.py"):
            os.makedirs(os.path.dirname(f"{path}/tests/{name}"), exist_ok=True)
            shutil.copy(f"{HERE}/{name}", f"{path}/tests/{name}")
        write(f"{path}/tests/pytest.ini",
              "[pytest]\naddopts = --strict-markers\nmarkers =\n    long: long\n")
        # There are no crates.
        for check in ("c_circles", "c_headers", "import_circles", "lib_border", "licences",
                      "option_names", "packages", "second_processes", "semver", "type_names"):
            write(f"{path}/tests/{check}.py", "#!/bin/sh\n", 0o755)
        write(f"{path}/tests/sweep.py", "#!/bin/sh\necho swept\n", 0o755)
        write(f"{path}/kernel/build/check-untouched.sh", "#!/bin/sh\n", 0o755)
        write(f"{path}/fuzz/run", "#!/bin/sh\n", 0o755)
        write(f"{path}/tests/demo", "#!/bin/sh\n", 0o755)
        write(f"{path}/out/venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n', 0o755)
        write(f"{path}/out/venv/bin/xdftool", "#!/bin/sh\n", 0o755)
        for tool in TOOLS:
            write(f"{path}/tools/{tool}", STAND_IN, 0o755)
        self.write_tests("program/test_cli.py", STEADY)

    def write_tests(self, name, *tests):
        write(f"{self.path}/tests/{name}", HEAD + "".join(tests))

    def allow(self, *rows):
        write(f"{self.path}/tests/skips_allowed.txt",
              "# a comment\n" + "".join(f"{row}\n" for row in rows))

    def git(self, *words):
        subprocess.run(["git", "-C", self.path, "-c", "user.name=n", "-c", "user.email=e", *words],
                       check=True, capture_output=True)

    def commit(self):
        write(f"{self.path}/.gitignore", "out\nstate.*\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")

    def run(self, *arguments, good, ci="", broken="", prefix=()):
        """Runs the tests of the tiny repository. Returns what is on the terminal."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("OUTBOARD_")
                       and name not in ("TESTS", "PYTEST_ADDOPTS")}
        environment |= {"PATH": f"{self.path}/tools:{os.environ['PATH']}",
                        "CI": ci, "BROKEN": broken}
        done = subprocess.run([*prefix, f"{self.path}/tests/run", *arguments], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert (done.returncode == 0) == good, f"ended with {done.returncode}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def repository(tmp_path):
    return Repository(str(tmp_path))


def failed_parts(output) -> list:
    return [line.strip()
            for line in output.partition("\nfailed parts:\n")[2].partition("\n\n")[0].splitlines()]


def test_good(repository):
    repository.write_tests("test_more.py", STEADY, LONG)
    output = repository.run(good=True)
    # The runners' own lines come last.
    assert "1 passed, 1 deselected in" in output.splitlines()[-2], output
    assert "1 passed in" in output.splitlines()[-1], output
    assert "FAILED" not in output and output.startswith("swept\n")
    assert repository.run("-k", "steady", good=True).startswith("swept\n")


@pytest.mark.parametrize("broken,part", [
    ("shellcheck -x", "ShellCheck"),
    ("cargo -D", "clippy"),
    ("cargo test", "cargo test"),
    ("make library", "profile base, SUITES=y"),
    ("gcc -Wall", "profile base, SUITES=y"),
])
def test_each_part_counts(repository, broken, part):
    assert part in failed_parts(repository.run(good=False, broken=broken))


SLOW = """#!/bin/bash
for _ in 1 2 3 4; do
	echo "${0##*/} works"
	sleep 0.02
done
exit 1
"""


def test_lanes_of_parts(repository):
    """Output of parts that run side by side is not mixed, and each failure is named."""
    for tool in ("cargo", "make"):
        write(f"{repository.path}/tools/{tool}", SLOW, 0o755)
    output = repository.run(good=False, ci="true")
    for part, tool in (("cargo test", "cargo"), ("clang", "make"),
                       ("kernel/arch, MMU=n", "make")):
        assert part in failed_parts(output), output
        said = output.partition(f"\n==== {part} (")[2].partition(")\n")[2].partition("\n====")[0]
        assert said.splitlines() == [f"{tool} works"] * 4, output
        log = f"part-{re.sub('[^A-Za-z0-9]', '-', part)}.log"
        with open(f"{repository.path}/out/test-results/{log}", encoding="utf-8") as stream:
            assert said in stream.read()


def test_a_lane_that_ends_early(repository):
    """What it would have run is not known."""
    write(f"{repository.path}/fuzz/run", "#!/bin/sh\nkill -9 $PPID\n", 0o755)
    assert failed_parts(repository.run(good=False)) == ["rust_parts"]


def test_a_tool_of_rust_that_is_missing(repository):
    """In CI that is a failure: nobody would notice."""
    assert "not run: cargo fmt" in repository.run(good=True, broken="cargo --version")
    assert "cargo fmt" in failed_parts(repository.run(
        good=False, broken="cargo --version", ci="true"))


def test_a_line_that_is_too_long(repository):
    write(f"{repository.path}/lib/a.c", "\t" * 12 + "12345\n")
    output = repository.run(good=False)
    assert "lib/a.c:1: 101 columns" in output
    assert failed_parts(output) == ["lines of at most 100 columns"]


def test_unsteady_tests_pass_and_are_named(repository):
    repository.write_tests("program/test_cli.py", STEADY, UNSTEADY, UNSTEADY_SETUP)
    repository.write_tests("test_more.py", UNSTEADY_TEARDOWN)
    output = repository.run(good=True)
    summary = output.partition("==== summary")[2]
    for name, text in (("program/test_cli.py::test_unsteady", "the first time"),
                       ("program/test_cli.py::test_late", "the first setup"),
                       ("test_more.py::test_busy", "the first teardown")):
        line = f"unsteady: {name} (failed once beside other work)\n"
        assert line in summary, output
        assert text in output.partition(line)[2].partition("==== summary")[0], output
        with open(f"{repository.path}/out/test-results/unsteady.txt", encoding="utf-8") as stream:
            assert text in stream.read().partition(line)[2]
    assert "test_steady" not in summary


def unsteady_rows(repository) -> list:
    with open(f"{repository.path}/tests/unsteady.txt", encoding="utf-8") as stream:
        return [line.strip() for line in stream if not line.startswith("#")]


def test_an_unsteady_test_gets_a_row(repository):
    """With date, commit and reason, and no path of the machine. The row alone is no change of a
    tracked file.
    """
    reason = "f'the first time: {__file__} /other/disk.img'"
    repository.write_tests("test_more.py", STEADY, UNSTEADY.replace("'the first time'", reason))
    repository.commit()
    assert failed_parts(repository.run(good=True)) == []
    (row,) = unsteady_rows(repository)
    assert re.fullmatch(r"test_more\.py::test_unsteady: \d{4}-\d\d-\d\d, [0-9a-f]{7,}: "
                        r"AssertionError: the first time: test_more\.py disk\.img", row), row


def test_unsteady_for_the_second_time(repository):
    repository.write_tests("test_more.py", UNSTEADY)
    write(f"{repository.path}/tests/unsteady.txt",
          "# rows\ntest_more.py::test_unsteady: 2020-02-02, 0123456: seen before\n")
    output = repository.run(good=False)
    assert "unsteady for the second time: test_more.py::test_unsteady" in output
    assert "FAILED: test_more.py::test_unsteady\n" in output
    assert len(unsteady_rows(repository)) == 1


@pytest.mark.parametrize("name,test", [
    ("invariants/test_invariants.py", UNSTEADY),
    ("program/test_crash.py", UNSTEADY),
    ("program/test_durable.py", UNSTEADY),
    ("library/test_snapshot.py", UNSTEADY),
    ("test_more.py", UNSTEADY.replace(
        "the first time", "a kernel that ran during this test reports\\nWARNING: CPU: 0")),
])
def test_failures_that_are_not_repeated(repository, name, test):
    repository.write_tests(name, STEADY, test)
    output = repository.run(good=False)
    assert f"FAILED: {name}::test_unsteady: no repetition excuses it" in output
    assert "once more, alone" not in output


def test_the_times_of_a_run(repository):
    """Its parts, streams and slowest tests; on committed sources only."""
    page = f"{repository.path}/docs/lab/test.md"
    repository.write_tests("test_more.py", STEADY,
                           "def test_slow():\n    import time\n    time.sleep(1.2)\n")
    repository.run(good=True)
    assert not os.path.exists(page)
    repository.commit()
    repository.run(good=False, broken="cargo test")
    with open(page, encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    for start in ("Commit: ", "| cargo test | FAILED | 0:", "| pytest | passed | 0:",
                  "| programs | 1 | 0 | 0 | 0 | 0:0", "| others | 2 | 0 | 0 | 0 | 0:0"):
        assert any(line.startswith(start) for line in lines), (start, lines)
    assert lines[lines.index("| slowest tests | seconds |") + 2].endswith("test_slow` | 1 |")


def test_a_test_that_fails_twice(repository):
    repository.write_tests("test_more.py", BROKEN, UNSTEADY)
    output = repository.run(good=False)
    assert "FAILED: test_more.py::test_broken\n" in output
    assert failed_parts(output) == ["pytest"]
    assert "unsteady: test_more.py::test_unsteady" in output


def test_a_skip_is_no_second_pass(repository):
    repository.write_tests("test_more.py", THEN_SKIPPED)
    assert "FAILED: test_more.py::test_evasive\n" in repository.run(good=False)


def test_many_failures_are_not_repeated(repository):
    repository.write_tests(
        "test_more.py",
        "@pytest.mark.parametrize('n', range(6))\ndef test_n(n): assert times(str(n)) > 1\n")
    assert "6 tests; more than 5 are not run again" in repository.run(good=False)


def test_a_run_that_is_stopped_shows_the_logs_of_side_streams(repository, tmp_path):
    begun = tmp_path / "begun"
    repository.write_tests("program/test_cli.py", STEADY, "def test_slow():\n    import time\n"
                           f"    open({str(begun)!r}, 'w').close()\n    time.sleep(300)\n")
    with subprocess.Popen([sys.executable, f"{repository.path}/tests/streams.py", tmp_path],
                          stdout=subprocess.PIPE, text=True) as running:
        wait_until(begun.exists, "the slow test runs")
        running.terminate()
        output = running.communicate()[0]
        assert running.returncode == 128 + signal.SIGTERM, output
    assert "program/test_cli.py ." in output


def test_a_shared_fixture_is_one_failure(repository):
    repository.write_tests("test_more.py", SHARED_SETUP)
    output = repository.run(good=True)
    assert ("unsteady: test_more.py::test_with_others[6] "
            in output.partition("==== summary")[2]), output


@pytest.mark.parametrize("text",
                         ["import nothing_of_this_name\n", "def test_death(): os._exit(0)\n",
                          "def test_death(): os._exit(3)\n"])
def test_what_is_no_failure_of_a_test(repository, text):
    repository.write_tests("test_more.py", STEADY, text)
    assert failed_parts(repository.run(good=False)) == ["pytest"]


def test_no_tests_are_no_success(repository):
    os.unlink(f"{repository.path}/tests/program/test_cli.py")
    assert "there are no tests" in repository.run(good=False)


def test_skips(repository):
    repository.write_tests("test_more.py", SKIPPED, STEADY)
    said = (
        "skipped, but not in tests/skips_allowed.txt: test_more.py::test_skipped: no such device\n")
    assert said in repository.run(good=True)
    assert f"FAILED: {said}" in repository.run(good=False, ci="true")
    repository.allow("test_more.py::*skipped: this machine has none")
    assert said not in repository.run(good=True, ci="true")
    repository.allow("test_more.py::*skipped: ")
    assert "a row without a reason" in repository.run(good=False, ci="true")


@pytest.mark.needs("unshare")
def test_skips_of_ordinary_users(repository):
    """A user who has no name in a new namespace still owns the files of the tiny repository."""
    repository.write_tests("test_more.py", SKIPPED, STEADY)
    repository.allow("user: no such *: users have no devices")
    prefix = ("unshare", "--user") if os.geteuid() == 0 else ()
    assert "not in tests/skips_allowed.txt" not in repository.run(good=True, ci="true",
                                                                  prefix=prefix)
    if os.geteuid() == 0:
        assert "FAILED: skipped, but" in repository.run(good=False, ci="true")
    repository.allow("user: no such: another reason")
    assert "FAILED: skipped, but" in repository.run(good=False, ci="true", prefix=prefix)
    repository.allow("user: no such *")
    assert "a row without a reason" in repository.run(good=False, ci="true", prefix=prefix)


# pytest reports them in different phases.
WAYS_TO_SKIP = {
    "called": SKIPPED,
    "marked": "@pytest.mark.skipif(True, reason='no such device')\ndef test_skipped(): pass\n",
    "fixture": "@pytest.fixture\ndef device(): pytest.skip('no such device')\n"
               "def test_skipped(device): pass\n",
    "file": "pytest.skip('no such device', allow_module_level=True)\n",
}


def test_each_way_to_skip_counts(repository):
    """In the main stream, and in another one."""
    names = [f"{folder}test_{way}.py" for folder in ("", "mount/") for way in WAYS_TO_SKIP]
    for name in names:
        repository.write_tests(name, WAYS_TO_SKIP[name.partition("test_")[2][:-3]])
    output = repository.run(good=False, ci="true")
    for name in names:
        assert f"FAILED: skipped, but not in tests/skips_allowed.txt: {name}" in output, output
    repository.allow(*(f"{name}*: this machine has none" for name in names[1:]))
    output = repository.run(good=False, ci="true")
    assert output.count("FAILED: skipped") == 1, output
    assert names[0] in output.partition("FAILED: skipped")[2], output


def test_long_ones_run_by_themselves(repository):
    repository.write_tests("test_more.py", STEADY, LONG)
    output = repository.run("--long", good=False)
    assert "FAILED: test_more.py::test_long\n" in output
    assert "cargo test" not in output
    # The tiny repository has no tests/formats/matrix.
    assert failed_parts(output) == ["vfs-builtin-debug-asan-ubsan", "pytest"]


def test_parts_of_a_long_run(repository):
    output = repository.run("--long", "base-up", "fuzz", good=True)
    assert "==== base-up" in output and "==== fuzz" in output and "==== pytest" not in output
    broken = repository.run("--long", "base-up", good=False, broken="make SMP=n")
    assert failed_parts(broken) == ["base-up"]
    assert "no part of a long run: fuz;" in repository.run("--long", "fuz", good=False)


def test_a_run_that_changes_a_tracked_file(repository):
    repository.write_tests("test_more.py", STEADY,
                           "def test_write(): open(__file__[:-3] + '.txt', 'w').write('changed')\n")
    write(f"{repository.path}/tests/test_more.txt", "as committed")
    repository.commit()
    output = repository.run(good=False)
    assert failed_parts(output) == ["tracked files are unchanged"]
    assert "tests/test_more.txt" in output
    # It was changed before this run.
    repository.run(good=True)


def rows(page) -> dict:
    """{part: its other cells} of the page of the long run."""
    with open(page, encoding="utf-8") as stream:
        cells = [line.strip("| \n").split(" | ") for line in stream if line.startswith("| ")]
    return {name: others for name, *others in cells[1:]}


def test_a_long_run_is_recorded(repository):
    """With its commit, on committed sources only; the page itself may have changed."""
    page, checks = f"{repository.path}/docs/lab/test-long.md", "vfs-builtin-debug-asan-ubsan"
    repository.write_tests("formats/matrix/test_ext4.py", STEADY)
    repository.write_tests("test_more.py", LONG.replace("False", "times('long') > 2"))
    write(page, "No run is recorded.\n")
    repository.commit()
    for good, result in (False, "FAILED"), (True, "passed"):
        repository.run("--long", good=good)
        recorded = rows(page)
        assert list(recorded)[-6:] == [checks, "packages", "features", "semver", "pytest", "fuzz"]
        assert recorded["fuzz"][0] == "passed"
        assert recorded[checks][0].startswith("passed: 1 passed in ")
        assert recorded["pytest"][0].startswith(f"{result}: "), recorded
        assert f"1 {result.lower()} in" in recorded["pytest"][0]
        assert recorded["pytest"][3].endswith(" all"), recorded
    os.unlink(page)
    repository.run(good=True)
    repository.write_tests("test_more.py", STEADY)
    repository.run("--long", good=False)
    assert not os.path.exists(page)


def test_a_part_alone_leaves_the_other_rows(repository):
    page = f"{repository.path}/docs/lab/test-long.md"
    repository.commit()
    repository.run("--long", "fuzz", "base", good=True)
    repository.run("--long", "base", good=False, broken="make library")
    results = [(name, cells[0]) for name, cells in rows(page).items()]
    assert results == [("base", "FAILED"), ("fuzz", "passed")]
