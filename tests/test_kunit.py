# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own KUnit suites, as modules loaded into the library that is shipped.

One process per module: an oops in one hides no other. tests/kunit_skip.txt lists
what is left out, with the reason; everything else must pass.
"""

import functools
import os
import re
import subprocess

import pytest

from support import host, program

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(program.OUT, "modules")
RESULT = re.compile(r"^(?:\[[^]]*\] ?)?( *)(not ok|ok) \d+ (?:- )?([^\s#]+)[^#]*(?:# (SKIP)\b.*)?")
TIMEOUT = 120


@functools.cache
def modules() -> dict:
    """Name to path of every module of the build; the kernel's names have _ for -."""
    found = {}
    for directory, _, files in os.walk(MODULES):
        for name in files:
            if name.endswith(".ko"):
                found[name[:-3].replace("-", "_")] = os.path.join(directory, name)
    return found


def has_suites(path: str) -> bool:
    sections = host.run("readelf", "-SW", path).stdout
    return ".kunit_test_suites" in sections or ".kunit_init_test_suites" in sections


@functools.cache
def kunit_modules() -> list:
    return sorted(name for name, path in modules().items() if has_suites(path))


@functools.cache
def left_out() -> dict:
    """{("option", "module" or "suite", name): reason}"""
    found = {}
    with open(os.path.join(HERE, "kunit_skip.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                subject, reason = line.strip().split(": ", 1)
                found[tuple(subject.split())] = reason
    return found


OPTION = re.compile(r"^(?:menu)?config (\w+)\n((?:[ \t]+.*\n|\n|#.*\n)*)", re.MULTILINE)


def options_of_the_tree() -> set:
    """Every option of Linux that is a KUnit test, those of other architectures left out."""
    found = set()
    for directory, folders, files in os.walk(os.path.join(program.OUT, "source", "linux")):
        folders[:] = [name for name in folders if name not in ("arch", "Documentation", "tools")]
        for name in files:
            if name.startswith("Kconfig"):
                with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as stream:
                    found |= {option for option, body in OPTION.findall(stream.read()) if is_test(option, body)}
    return found


def is_test(option: str, body: str) -> bool:
    head = re.split(r"^\s+help\s*$", body, maxsplit=1, flags=re.MULTILINE)[0]
    named = "KUNIT" in option or option.endswith("_TEST") or option.endswith("_TESTS")
    return named and re.search(r"depends on.*\bKUNIT\b|\bif KUNIT\b|KUNIT_ALL_TESTS", head) is not None


def needed_by(name: str) -> list:
    """Paths of the module and all it depends on, in the order of loading."""
    order = []

    def visit(current):
        path = modules().get(current)
        if path is None or path in order:
            return
        for other in host.run("modinfo", "-F", "depends", path).stdout.strip().split(","):
            visit(other.replace("-", "_"))
        order.append(path)

    visit("kunit")
    visit(name)
    return order


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("kunit") / "kunit_run")
    library = os.path.join(program.OUT, "lib")
    host.run("gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(program.OUT, "include"), os.path.join(HERE, "kunit_run.c"),
             "-o", path, f"-L{library}", f"-Wl,-rpath,{library}", "-loutboard", "-pthread")
    return path


class Report:
    """Suites and cases of one KTAP report: suites stand at the left, their cases four columns further in."""

    def __init__(self, text: str):
        self.suites, self.cases = {}, []
        for line in text.splitlines():
            match = RESULT.match(line)
            if not match:
                continue
            indent, verdict, name, skipped = match.groups()
            state = "skipped" if skipped else verdict
            if not indent:
                self.suites[name] = state
            elif len(indent) == 4:
                self.cases.append((name, state))

    def failed(self) -> list:
        return [name for name, state in self.suites.items() if state == "not ok" and ("suite", name) not in left_out()]

    def count(self, state: str) -> int:
        return sum(1 for _, found in self.cases if found == state)


def test_there_are_modules():
    assert modules(), f"no modules in {MODULES}"
    assert kunit_modules(), f"no KUnit modules in {MODULES}"


def test_every_suite_is_built_or_listed():
    with open(os.path.join(program.OUT, "kernel", "full", ".config"), encoding="ascii") as stream:
        built = set(re.findall(r"^CONFIG_(\w+)=[my]$", stream.read(), re.MULTILINE))
    options = options_of_the_tree()
    assert len(options) > 50
    missing = [option for option in sorted(options - built) if ("option", option) not in left_out()]
    assert not missing, f"neither built nor listed in tests/kunit_skip.txt: {missing}"


@pytest.mark.parametrize("name", kunit_modules() or ["none"])
def test_module(name, runner, request):
    if name == "none":
        pytest.skip("there are no KUnit modules")
    if ("module", name) in left_out():
        pytest.skip(f"left out: {left_out()['module', name]}")
    try:
        done = subprocess.run([runner, *needed_by(name)], capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs; the last lines:\n{(error.stdout or b'').decode(errors='replace')[-3000:]}")
    log = done.stdout.decode(errors="replace")
    report = Report(log)
    tail = f"{log.split('Run /init')[-1][-5000:]}\n{done.stderr.decode(errors='replace')[-1500:]}"
    request.config.stash.setdefault(program.KUNIT_REPORTS, []).append(report)
    assert done.returncode == 0, f"ended with {done.returncode}\n{tail}"
    assert report.suites, f"no suite ran\n{tail}"
    assert not report.failed(), f"failed: {report.failed()}\n{tail}"
