# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own KUnit suites, as modules loaded into the library that is shipped.

One process per module: an oops in one hides no other. tests/kernel/kunit_skip.txt lists
what is left out, with the reason; everything else must pass.
"""

import functools
import os
import re
import sys

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
    """{("option" or "module", name) or ("case", suite, name): reason}"""
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
    """Suites and cases of one KTAP report: suites stand at the left, after their cases, which are four columns further in."""

    def __init__(self, text: str):
        self.suites, self.cases = {}, []
        pending = []
        for line in text.splitlines():
            match = RESULT.match(line)
            if not match:
                continue
            indent, verdict, name, skipped = match.groups()
            state = "skipped" if skipped else verdict
            if not indent:
                self.suites[name] = state
                self.cases += [(name, case, found) for case, found in pending]
                pending = []
            elif len(indent) == 4:
                pending.append((name, state))

    def failed(self) -> list:
        """Cases that may not fail, and suites that failed without a case."""
        cases = [(suite, case) for suite, case, state in self.cases if state == "not ok"]
        alone = [suite for suite, state in self.suites.items() if state == "not ok" and suite not in {suite for suite, _ in cases}]
        return [f"{suite}: {case}" for suite, case in cases if ("case", suite, case) not in left_out()] + alone

    def passed_again(self) -> list:
        """Cases that are listed as failing, and do not."""
        return [f"{suite}: {case}" for suite, case, state in self.cases if state == "ok" and ("case", suite, case) in left_out()]

    def count(self, state: str) -> int:
        return sum(1 for *_, found in self.cases if found == state)


def test_there_are_modules():
    assert modules.every(), f"no modules in {modules.MODULES}"
    assert kunit_modules(), f"no KUnit modules in {modules.MODULES}"


def test_every_suite_is_built_or_listed():
    with open(os.path.join(program.OUT, "kernel", "full", ".config"), encoding="ascii") as stream:
        built = set(re.findall(r"^CONFIG_(\w+)=[my]$", stream.read(), re.MULTILINE))
    options = options_of_the_tree()
    assert len(options) > 50
    missing = [option for option in sorted(options - built) if ("option", option) not in left_out()]
    assert not missing, f"neither built nor listed in tests/kernel/kunit_skip.txt: {missing}"


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
    assert not report.passed_again(), f"pass again, so tests/kernel/kunit_skip.txt need not list them: {report.passed_again()}"


KTAP = """KTAP version 1
1..2
    KTAP version 1
    # Subtest: one
    1..3
    ok 1 good
    not ok 2 bad
    ok 3 never # SKIP no hardware
# one: pass:1 fail:1 skip:1 total:3
not ok 1 one
not ok 2 two
"""


def test_report(monkeypatch):
    """What is listed may fail and nothing else; what passes again is noticed."""
    report = Report(KTAP)
    assert [report.count(state) for state in ("ok", "not ok", "skipped")] == [1, 1, 1]
    monkeypatch.setattr(sys.modules[__name__], "left_out", lambda: {})
    assert report.failed() == ["one: bad", "two"] and report.passed_again() == []
    monkeypatch.setattr(sys.modules[__name__], "left_out", lambda: {("case", "one", "bad"): "", ("case", "one", "good"): ""})
    assert report.failed() == ["two"] and report.passed_again() == ["one: good"]
