# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own KUnit suites, as modules loaded into the library that is shipped.

One process per module: an oops in one hides no other. tests/kunit_skip.txt lists
what is left out, with the reason; everything else must pass.
"""

import functools
import os
import re

import pytest

from support import host, modules, program

pytestmark = pytest.mark.kernel_reports("KUnit suites provoke warnings; the runner looks at their own verdicts")

HERE = os.path.dirname(os.path.abspath(__file__))
RESULT = re.compile(r"^(?:\[[^]]*\] ?)?( *)(not ok|ok) \d+ (?:- )?([^\s#]+)[^#]*(?:# (SKIP)\b.*)?")
TIMEOUT = 120


def has_suites(path: str) -> bool:
    sections = host.run("readelf", "-SW", path).stdout
    return ".kunit_test_suites" in sections or ".kunit_init_test_suites" in sections


@functools.cache
def kunit_modules() -> list:
    return sorted(name for name, path in modules.every().items() if has_suites(path))


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


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("kunit")))


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
    assert modules.every(), f"no modules in {modules.MODULES}"
    assert kunit_modules(), f"no KUnit modules in {modules.MODULES}"


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
    run = modules.Run(runner, modules.needed_by("kunit", name), timeout=TIMEOUT)
    report = Report(run.log)
    request.config.stash.setdefault(program.KUNIT_REPORTS, []).append(report)
    assert run.result == 0, f"not loaded\n{run.tail}"
    assert report.suites, f"no suite ran\n{run.tail}"
    assert not report.failed(), f"failed: {report.failed()}\n{run.tail}"
