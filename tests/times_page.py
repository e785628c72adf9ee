#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes a page with the times of a run of tests/run: its parts, the streams of pytest, the slowest
tests.

Usage: times_page.py --commit TEXT RESULTS PAGE

RESULTS has parts.tsv (a line for each part: name, result, seconds) and the JUnit files
pytest-STREAM.xml.
"""

import argparse
import csv
import datetime
import glob
import os
import xml.etree.ElementTree

SLOWEST = 10
HEAD = """# Times of the last recorded make test

Each run of `make test` on committed sources writes this page. Parts of the two lanes (Rust, small
kernels) run side by side, and so do the streams of pytest.

Commit: {commit}

Ended {ended} UTC, {processors} processors, load average {load:.1f} at the end.
"""


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def cell(text: str) -> str:
    return text.replace("|", "-")


def table(head: tuple, rows: list) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def parts(results: str) -> list:
    with open(f"{results}/parts.tsv", encoding="utf-8", newline="") as stream:
        return [(name, result, minutes(int(seconds)))
                for name, result, seconds in csv.reader(stream, delimiter="\t")]


def suites(results: str) -> dict:
    """The suite of each stream, by its name."""
    return {os.path.basename(path).removeprefix("pytest-").removesuffix(".xml"):
            xml.etree.ElementTree.parse(path).getroot().find("testsuite")
            for path in sorted(glob.glob(f"{results}/pytest-*.xml"))}


def streams(found: dict) -> list:
    return [(name, *(suite.get(key) for key in ("tests", "failures", "errors", "skipped")),
             minutes(float(suite.get("time"))))
            for name, suite in found.items()]


def slowest(found: dict) -> list:
    cases = [(float(case.get("time")), f"{case.get('classname')}.{case.get('name')}")
             for suite in found.values() for case in suite.iter("testcase")]
    return [(f"`{name}`", f"{seconds:.0f}")
            for seconds, name in sorted(cases, reverse=True)[:SLOWEST]]


def page(results: str, commit: str) -> str:
    found = suites(results)
    ended = datetime.datetime.now(datetime.timezone.utc)
    return (HEAD.format(commit=commit, ended=f"{ended:%Y-%m-%d %H:%M}",
                        processors=os.cpu_count(), load=os.getloadavg()[0])
            + table(("part", "result", "minutes"), parts(results))
            + table(("stream", "tests", "failed", "errors", "skipped", "minutes"), streams(found))
            + table(("slowest tests", "seconds"), slowest(found)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", required=True, metavar="TEXT")
    parser.add_argument("results")
    parser.add_argument("page")
    chosen = parser.parse_args()
    text = page(chosen.results, chosen.commit)
    os.makedirs(os.path.dirname(chosen.page), exist_ok=True)
    with open(chosen.page, "w", encoding="utf-8") as stream:
        stream.write(text)
    print(f"wrote {chosen.page}: commit it")


if __name__ == "__main__":
    main()
