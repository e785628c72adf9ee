# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of all tests: the program must exist; big scratch space goes away after each test."""

import os
import resource
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# These need the path above.
from support import host, images, kernel_log, mounts, patience, program, running  # noqa: E402

subprocess.Popen = patience.Popen


def pytest_configure(config):
    running.begin()
    # Not the user's snapshots.
    os.environ["XDG_CACHE_HOME"] = os.path.join(program.OUT, "test-cache")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # Shells start what runs beside them with ignored signals, and programs go on ignoring them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


# Files of tests whose images are damaged or made to do harm: Linux may complain of them, and the
# tests look at how the program ends.
OF_BAD_IMAGES = ("test_fuzz.py", "test_damage.py", "test_panic.py", "test_limits.py")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in OF_BAD_IMAGES:
            item.add_marker(pytest.mark.kernel_reports("its images are bad"))


def pytest_collection_finish(session):
    """Without the program nothing but the platform's own tests makes sense."""
    others = [item for item in session.items if item.path.parent.name != "library"]
    if others and not session.config.option.collectonly and not os.access(program.PROGRAM, os.X_OK):
        pytest.exit(f"{program.PROGRAM} is missing: run make first", returncode=2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    kernel_log.begin(item)
    if item.get_closest_marker("needs_root"):
        host.require_root()
    for marker in item.iter_markers("needs"):
        for tool in marker.args:
            if not host.have(tool):
                pytest.skip(f"the tool {tool} is not installed")


@pytest.fixture(autouse=True)
def no_kernel_warns(request):
    """Any kernel that runs during the test, in the program, in a mount's server or in a program of
    the C API.
    """
    before = kernel_log.size()
    yield
    found = kernel_log.report_since(before)
    if found and not request.node.get_closest_marker("kernel_reports"):
        pytest.fail(f"a kernel that ran during this test reports\n{found[:6000]}", pytrace=False)


def fail_for_late_reports(config, when):
    """Servers of mounts outlive their test; what they report then is an error of that test."""
    for test, found in kernel_log.late_reports():
        if not test.get_closest_marker("kernel_reports"):
            text = f"a kernel that this test started reports {when}\n{found[:6000]}"
            config.hook.pytest_runtest_logreport(report=pytest.TestReport(
                test.nodeid, test.location, dict.fromkeys(test.keywords, 1),
                "failed", text, "teardown"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield
    # The fixtures have ended, too.
    fail_for_late_reports(item.config, f"at the time of {item.nodeid}")


@pytest.fixture
def work():
    """A scratch directory on disk, removed after the test, with everything in it."""
    base = os.environ.get("OUTBOARD_TMP") or os.path.join(program.OUT, "test-tmp")
    os.makedirs(base, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="t", dir=base)
    os.chmod(directory, 0o755)
    yield directory
    host.remove_tree(directory)


# ---- of tests of mounts, unless a module has its own ----


@pytest.fixture(params=mounts.KINDS)
def kind(request):
    return request.param


@pytest.fixture
def image(work, kind):
    return images.make(f"{work}/disk.img", kind, 512)


@pytest.fixture
def place(image, kind):
    """A mounted image of each kind; checked after it was unmounted."""
    with mounts.mounted(image, "-o", "allow_other") as directory:
        yield directory
    mounts.check(image, kind)


@pytest.fixture
def ext4(work):
    return images.make(f"{work}/disk.img", "ext4", 64, "-N", "20000")


@pytest.fixture
def fuse_for_all():
    """The device as every distribution's udev makes it."""
    with mounts.fuse_for_all():
        yield


def pytest_unconfigure():
    kernel_log.remove_empty()


def pytest_terminal_summary(terminalreporter, config):
    """Counts of the kernel's own suites, before pytest's last line."""
    reports = config.stash.get(program.KUNIT_REPORTS, [])
    if reports:
        suites = sum(len(report.suites) for report in reports)
        passed, failed, skipped = (sum(report.count(state) for report in reports)
                                   for state in ("ok", "not ok", "skipped"))
        terminalreporter.write_line(f"KUnit: {len(reports)} modules, {suites} suites, {passed} "
                                    f"cases passed, {failed} failed as listed, "
                                    f"{skipped} skipped by themselves; tests/kernel/kunit_skip.txt "
                                    "lists what fails and what is left out")
