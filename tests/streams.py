#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs pytest in streams side by side and judges their outcomes.

Usage: streams.py [--marked EXPRESSION] [--tests DIRECTORY] [--commit TEXT] RESULTS

Tests that failed run once more, alone, after all streams have ended, if they are at most five;
those whose shared fixture failed count as one. One that passes then is unsteady: its row is added
to tests/unsteady.txt, and the run passes. A test that has a row already fails the run, and so does
one that fails again. Failures that no repetition excuses (NEVER_REPEATED, reports of a kernel) fail
the run at once. Where CI is set, a skip that tests/skips_allowed.txt does not list fails the run,
too. Some reasons to skip are listed for ordinary users alone. docs/testing.md describes all of it
for people.
"""

import argparse
import datetime
import glob
import json
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_REPEATED = 5
# Those that a shared fixture failed included.
MOST_TESTS_REPEATED = 40
# Their failures are lost data, lost wake-ups or broken invariants: one in a hundred runs is a bug.
NEVER_REPEATED = ("invariants/", "program/test_crash.py", "program/test_durable.py",
                  "library/test_snapshot.py")
# What tests/conftest.py says of a kernel that warned.
KERNEL_REPORT = re.compile(r"a kernel that (ran during this test|this test started) reports")
UNSTEADY_HEAD = """\
# Tests that failed beside other work and passed when repeated alone, one a line:
# TEST-ID: DATE, COMMIT: REASON. tests/run adds the rows; commit them. A test that is unsteady once
# more fails the run. Remove a row when the cause is fixed.
"""
# Begins a row of tests/skips_allowed.txt for ordinary users.
FOR_USERS = "user: "
# pytest's exit codes: all passed, some failed, none collected.
PASSED, FAILED, NONE = 0, 1, 5

# The streams beside the main one. Tests that are in none of them are in the main stream, whose
# output appears as it comes. All take about the same time, as the JUnit files say; but half of
# "network" waits, for servers that do not answer.
SIDE = {
    "images": (
        "formats/matrix",
        *(f"formats/test_{name}.py" for name in ("containers", "fuzz", "tar*")),
        *(f"program/test_{name}.py" for name in ("bad_input", "cp_hostile", "crash", "part_fsck"))),
    "programs": (
        "mount", *(f"formats/test_{name}.py" for name in ("inside", "layers", "volumes")),
        *(f"program/test_{name}.py"
          for name in ("cli", "commands", "examples", "random_tree", "sandbox", "script"))),
    "library": ("invariants", "library/test_[!n]*.py"),
    "network": (
        "library/test_n*.py",
        *(f"program/test_{name}.py"
          for name in ("network", "bad_servers", "server_errors", "durable", "limits")),
        *(f"formats/test_{name}.py"
          for name in ("hidden_parts", "la[br]*", "long_names", "mkfs", "reproducible", "vhd"))),
}
MAIN, AGAIN = "others", "again"


class Pytest:
    """One run of pytest: its log, its exit code, and what became of each test."""

    def __init__(self, chosen, name, *arguments):
        self.name, self.directory = name, chosen.tests
        self.log, self.outcomes_file = (f"{chosen.results}/{stem}" for stem
                                        in (f"pytest-{name}.log", f"outcomes-{name}.jsonl"))
        self.command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
                        "-p", "support.outcomes", f"--rootdir={chosen.tests}",
                        "--timeout=900", "-ra", "--durations=15",
                        f"--junit-xml={chosen.results}/pytest-{name}.xml", *arguments]
        self.environment = {**os.environ, "OUTBOARD_OUTCOMES": self.outcomes_file,
                            "PYTHONUNBUFFERED": "1",
                            "PYTHONPATH": os.pathsep.join(
                                filter(None, (HERE, os.environ.get("PYTHONPATH"))))}
        self.process = self.code = None

    def start(self, output):
        if os.path.exists(self.outcomes_file):
            os.unlink(self.outcomes_file)
        self.process = subprocess.Popen(self.command, env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=output,
                                        stderr=subprocess.STDOUT)

    def start_in_background(self):
        with open(self.log, "wb") as stream:
            self.start(stream)

    def run_shown(self):
        """Runs to the end; the log appears on standard output as it comes."""
        self.start(subprocess.PIPE)
        with open(self.log, "wb") as stream:
            for piece in iter(lambda: self.process.stdout.read1(65536), b""):
                stream.write(piece)
                show(piece)
        self.wait()

    def wait(self):
        self.code = self.process.wait()

    def stop(self):
        if self.process and self.code is None:
            self.process.terminate()
            self.wait()

    def outcomes(self) -> list:
        if not os.path.exists(self.outcomes_file):
            return []
        with open(self.outcomes_file, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def failures(self) -> dict:
        """First text of each test that failed in any phase, by its id."""
        found = {}
        for outcome in self.outcomes():
            if outcome["outcome"] == "failed":
                found.setdefault(outcome["id"], f"in {outcome['when']}:\n{outcome['text']}")
        return found

    def passed(self) -> set:
        done = {outcome["id"] for outcome in self.outcomes()
                if outcome["when"] == "call" and outcome["outcome"] == "passed"}
        return done - set(self.failures())

    def trouble(self) -> str:
        """Why repeating failed tests cannot make this run good: something besides a test went
        wrong. Empty: nothing.
        """
        if self.code not in (PASSED, FAILED, NONE):
            return f"pytest of the stream {self.name} ended with {self.code}"
        if not any(outcome["when"] == "end" for outcome in self.outcomes()):
            return f"pytest of the stream {self.name} ended in the middle"
        if any(outcome["when"] == "collect" and outcome["outcome"] == "failed"
               for outcome in self.outcomes()):
            return f"pytest of the stream {self.name} could not load a test file"
        if self.code == FAILED and not self.failures():
            return f"pytest of the stream {self.name} ended with {self.code} though no test failed"
        return ""


def show(piece: bytes):
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def say(text: str):
    show(f"{text}\n".encode(errors="replace"))


def run_streams(chosen) -> list:
    """The main stream last: it decides what is on standard output."""
    sides, taken = [], []
    for name, patterns in SIDE.items():
        files = sorted(path for pattern in patterns
                       for path in glob.glob(f"{chosen.tests}/{pattern}"))
        if files:
            taken += files
            sides.append(Pytest(chosen, name, "-m", chosen.marked, *files))
    main = Pytest(chosen, MAIN, "-m", chosen.marked, chosen.tests,
                  *(f"--ignore={path}" for path in taken))
    for side in sides:
        side.start_in_background()
    try:
        main.run_shown()
        for side in sides:
            side.wait()
    finally:
        # Also of a run that a time limit ends.
        for stopped in (*sides, main):
            stopped.stop()
        for side in sides:
            with open(side.log, "rb") as stream:
                show(stream.read())
    return [*sides, main]


def first_line(failure: str) -> str:
    """The line of a failure that says what is wrong: pytest marks it with an E."""
    lines = [line.strip() for line in failure.splitlines()[1:] if line.strip()]
    marked = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    return (marked or lines or ["no text"])[0]


def without_directories(text: str, repository: str) -> str:
    """Absolute paths become names of files: a tracked file tells nothing of the machine. The path
    of the repository may have blanks.
    """
    text = text.replace(repository, "")
    return re.sub(r"(?<![\w.:/])/(?:[^\s/'\"]+/)+", "", text)


class Unsteady:
    """The rows of tests/unsteady.txt."""

    def __init__(self, chosen):
        self.path, self.commit = f"{chosen.tests}/unsteady.txt", chosen.commit or "no commit"
        self.repository = os.path.dirname(chosen.tests)
        self.rows = []
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as stream:
                self.rows = [line for line in stream if line.strip() and line[0] != "#"]

    def has(self, identity: str) -> bool:
        return any(row.startswith(f"{identity}: ") for row in self.rows)

    def add(self, identity: str, failure: str):
        today = datetime.datetime.now(datetime.timezone.utc).date()
        reason = without_directories(first_line(failure), self.repository)
        self.rows.append(f"{identity}: {today}, {self.commit}: {reason[:200]}\n")
        with open(self.path, "w", encoding="utf-8") as stream:
            stream.write(UNSTEADY_HEAD + "".join(sorted(self.rows)))


def never_repeated(failures: dict) -> list:
    return [identity for identity, text in failures.items()
            if identity.startswith(NEVER_REPEATED) or KERNEL_REPORT.search(text)]


def second_chance(chosen, failures: dict) -> list:
    """Runs failed tests once more, alone. Returns those that fail the run."""
    say(f"\n==== once more, alone: {len(failures)} failed beside other work")
    again = Pytest(chosen, AGAIN, *(f"{chosen.tests}/{identity}" for identity in failures))
    again.run_shown()
    if again.trouble():
        say(f"FAILED: {again.trouble()}")
        return list(failures)
    passed = [identity for identity in failures if identity in again.passed()]
    known = Unsteady(chosen)
    twice = [identity for identity in passed if known.has(identity)]
    for identity in twice:
        say(f"unsteady for the second time: {identity}: tests/unsteady.txt has its row")
    with open(f"{chosen.results}/unsteady.txt", "w", encoding="utf-8") as stream:
        for identity in passed:
            text = (f"unsteady: {identity} (failed once beside other work)\n"
                    f"first failure, {failures[identity]}\n")
            stream.write(text)
            say(text)
            if identity not in twice:
                known.add(identity, failures[identity])
    return [identity for identity in failures if identity not in passed or identity in twice]


class AllowedSkips:
    """The rows of tests/skips_allowed.txt: patterns of test ids, and patterns of reasons that only
    ordinary users may have.
    """

    def __init__(self, path: str):
        self.ids, self.reasons = [], []
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.strip() and not line.startswith("#"):
                    self.add(path, line.strip())

    def add(self, path: str, row: str):
        patterns = self.reasons if row.startswith(FOR_USERS) else self.ids
        pattern, _, why = row.removeprefix(FOR_USERS).partition(": ")
        if not why.strip():
            raise SystemExit(f"{path}: a row without a reason: {row}")
        patterns.append(re.compile(".*".join(map(re.escape, pattern.split("*")))))

    def has(self, identity: str, reason: str) -> bool:
        return (any(pattern.fullmatch(identity) for pattern in self.ids)
                or os.geteuid() != 0
                and any(pattern.fullmatch(reason) for pattern in self.reasons))


def skips_not_allowed(chosen, runs) -> list:
    allowed = AllowedSkips(f"{chosen.tests}/skips_allowed.txt")
    skips = {(outcome["id"], outcome["text"]) for run in runs
             for outcome in run.outcomes() if outcome["outcome"] == "skipped"}
    return sorted(f"{identity}: {reason}" for identity, reason in skips
                  if not allowed.has(identity, reason))


def judge_failures(chosen, runs) -> bool:
    troubles = [run.trouble() for run in runs if run.trouble()]
    if all(run.code == NONE for run in runs):
        troubles.append("there are no tests")
    for trouble in troubles:
        say(f"FAILED: {trouble}")
    failures = {identity: text for run in runs for identity, text in run.failures().items()}
    if not failures or troubles:
        return not troubles
    if final := never_repeated(failures):
        for identity in final:
            say(f"FAILED: {identity}: no repetition excuses it")
        return False
    # A fixture of a module or of all fails each of its tests with the same words.
    causes = {text if text.startswith("in setup") else identity
              for identity, text in failures.items()}
    if len(causes) > MOST_REPEATED or len(failures) > MOST_TESTS_REPEATED:
        say(f"FAILED: {len(failures)} tests; more than {MOST_REPEATED} are not run again")
        return False
    for identity in (left := second_chance(chosen, failures)):
        say(f"FAILED: {identity}")
    return not left


def judge_skips(chosen, runs) -> bool:
    skips = skips_not_allowed(chosen, runs)
    in_ci = os.environ.get("CI", "").lower() in ("true", "1", "yes")
    for skip in skips:
        say(f"{'FAILED: ' if in_ci else ''}skipped, but not in tests/skips_allowed.txt: {skip}")
    return not (skips and in_ci)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--marked", default="not long", metavar="EXPRESSION")
    parser.add_argument("--tests", default=HERE, metavar="DIRECTORY")
    parser.add_argument("--commit", default="", metavar="TEXT",
                        help="what is tested: a word of each row of tests/unsteady.txt")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    runs = run_streams(chosen)
    verdicts = [judge_failures(chosen, runs), judge_skips(chosen, runs)]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
