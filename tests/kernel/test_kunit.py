# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own KUnit suites, as modules of kernels that are built with SUITES=y.

One process per module: an oops in one hides no other. tests/kernel/kunit_skip.txt lists
what is left out, with the reason; everything else must pass. `make test` has the suites of the
smallest profile, `make test-long` those of the profile full, and those of the smallest again, on a
kernel that checks itself.
"""

import functools
import glob
import os
import re
import sys

import pytest

from support import host, modules, program

pytestmark = pytest.mark.kernel_reports(
    "KUnit suites provoke warnings; the runner looks at their own verdicts")

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = os.path.join(program.REPOSITORY, "kernel", "configs")
PLAN = re.compile(r"^(?:\[[^]]*\] ?)?( *)1\.\.(\d+)$")
RESULT = re.compile(r"^(?:\[[^]]*\] ?)?( *)(not ok|ok) \d+ (?:- )?([^\s#]+)[^#]*(?:# (SKIP)\b.*)?")
TIMEOUT = 120


VARIANTS = (modules.BASE_SUITES, modules.FULL_SUITES, modules.DEBUG_SUITES)


def cases() -> list:
    """(Variant, module) of each module with suites; a module of None stands for a variant that is
    not built.
    """
    return [
        pytest.param(variant, name, id=f"{variant}-{name}",
                     marks=[] if variant == modules.BASE_SUITES else pytest.mark.long)
        for variant in VARIANTS for name in modules.with_suites(variant) or [None]
    ]


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
                with open(os.path.join(directory, name), encoding="utf-8",
                          errors="replace") as stream:
                    found |= {
                        option
                        for option, body in OPTION.findall(stream.read()) if is_test(option, body)
                    }
    return found


def is_test(option: str, body: str) -> bool:
    head = re.split(r"^\s+help\s*$", body, maxsplit=1, flags=re.MULTILINE)[0]
    named = "KUNIT" in option or option.endswith("_TEST") or option.endswith("_TESTS")
    return named and re.search(r"depends on.*\bKUNIT\b|\bif KUNIT\b|KUNIT_ALL_TESTS",
                               head) is not None


def built() -> set:
    """Every option that a fragment of the suites asks for; kernel/build/configure.sh sees to it
    that they are granted.
    """
    found = set()
    for path in glob.glob(os.path.join(CONFIGS, "suites*.config")):
        with open(path, encoding="ascii") as stream:
            found |= set(re.findall(r"^CONFIG_(\w+)=[my]$", stream.read(), re.MULTILINE))
    return found


@pytest.fixture(scope="module")
def runner_of(tmp_path_factory):
    """Path of the program that loads modules, by variant."""
    return functools.cache(
        lambda variant: modules.compile_runner(str(tmp_path_factory.mktemp("kunit")), variant))


class Report:
    """Suites and cases of one KTAP report: suites stand at the left, after their cases, which are
    four columns further in.

    `planned` counts what the plans of the report (lines as 1..7) promise: suites, and cases of all
    suites.
    """

    def __init__(self, text: str):
        self.suites, self.cases = {}, []
        self.planned = {0: 0, 4: 0}
        pending = []
        for line in text.splitlines():
            plan = PLAN.match(line)
            if plan and len(plan[1]) in self.planned:
                self.planned[len(plan[1])] += int(plan[2])
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

    def is_complete(self) -> bool:
        """Whether all suites and cases that the report promises have a result."""
        return (self.planned[0], self.planned[4]) == (len(self.suites), len(self.cases))

    def failed(self) -> list:
        """Cases that may not fail, and suites that failed without a case."""
        cases = [(suite, case) for suite, case, state in self.cases if state == "not ok"]
        alone = [
            suite for suite, state in self.suites.items()
            if state == "not ok" and suite not in {suite
                                                   for suite, _ in cases}
        ]
        return [
            f"{suite}: {case}" for suite, case in cases if ("case", suite, case) not in left_out()
        ] + alone

    def passed_again(self) -> list:
        """Cases that are listed as failing, and do not."""
        return [
            f"{suite}: {case}" for suite, case, state in self.cases
            if state == "ok" and ("case", suite, case) in left_out()
        ]

    def count(self, state: str) -> int:
        return sum(1 for *_, found in self.cases if found == state)


def test_every_suite_is_built_or_listed():
    options = options_of_the_tree()
    assert len(options) > 50
    listed = {subject[1] for subject in left_out() if subject[0] == "option"}
    missing = sorted(options - built() - listed)
    assert not missing, f"neither built nor listed in tests/kernel/kunit_skip.txt: {missing}"
    stale = sorted(listed & built())
    assert not stale, f"built, so tests/kernel/kunit_skip.txt need not list them: {stale}"


@pytest.mark.parametrize("variant,name", cases())
def test_module(variant, name, runner_of, request):
    if name is None:
        pytest.skip(f"the kernel {variant} is not built: tests/run builds it")
    if ("module", name) in left_out():
        pytest.skip(f"left out: {left_out()['module', name]}")
    run = modules.Run(runner_of(variant), modules.needed_by("kunit", name, variant=variant),
                      timeout=TIMEOUT)
    report = Report(run.log)
    request.config.stash.setdefault(program.KUNIT_REPORTS, []).append(report)
    assert run.result == 0, f"not loaded\n{run.tail}"
    assert report.suites, f"no suite ran\n{run.tail}"
    assert report.is_complete(), (f"results of {len(report.suites)} suites and "
                                  f"{len(report.cases)} cases, not {report.planned}\n{run.tail}")
    assert not report.failed(), f"failed: {report.failed()}\n{run.tail}"
    again = report.passed_again()
    assert not again, f"pass again, so tests/kernel/kunit_skip.txt need not list them: {again}"


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
    """Only listed cases may fail, and a listed case that passes again is noticed."""
    report = Report(KTAP)
    assert [report.count(state) for state in ("ok", "not ok", "skipped")] == [1, 1, 1]
    assert report.is_complete()
    assert not Report(KTAP.replace("    ok 1 good\n", "")).is_complete()
    assert not Report(KTAP.replace("not ok 2 two\n", "")).is_complete()
    monkeypatch.setattr(sys.modules[__name__], "left_out", lambda: {})
    assert report.failed() == ["one: bad", "two"] and report.passed_again() == []
    monkeypatch.setattr(sys.modules[__name__], "left_out", lambda: {("case", "one", "bad"): "",
                                                                    ("case", "one", "good"): ""})
    assert report.failed() == ["two"] and report.passed_again() == ["one: good"]
