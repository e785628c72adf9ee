# SPDX-License-Identifier: GPL-2.0-only
"""A pytest plugin: appends one line of JSON for each outcome to the file $OUTBOARD_OUTCOMES.
tests/streams.py reads it.

A line has the test's id, the phase (collect, setup, call, teardown), the outcome, and the text of
a failure or the reason of a skip. The last line, of the phase "end", shows that no test ended
pytest itself.
"""

import json
import os

PATH = os.environ.get("OUTBOARD_OUTCOMES")


def write(identity, when, outcome, text):
    if PATH:
        with open(PATH, "a", encoding="utf-8") as stream:
            stream.write(
                json.dumps({"id": identity, "when": when, "outcome": outcome, "text": text}) + "\n")


def text_of(report) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext if report.failed else ""


def pytest_runtest_logreport(report):
    # A failure that was expected counts as a pass.
    outcome = "passed" if hasattr(report, "wasxfail") else report.outcome
    if outcome != "passed" or report.when == "call":
        captured = "".join(f"\n---- {name}\n{content}"
                           for name, content in report.sections) if report.failed else ""
        write(report.nodeid, report.when, outcome, text_of(report) + captured)


def pytest_collectreport(report):
    if report.outcome != "passed":
        write(report.nodeid, "collect", report.outcome, text_of(report))


def pytest_sessionfinish(exitstatus):
    write("", "end", str(int(exitstatus)), "")
