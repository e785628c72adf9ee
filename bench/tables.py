#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes the tables of README.md and docs/benchmarks.md from the record in docs/benchmarks.

    bench/tables.py

A table stands between <!-- record: NAME --> and <!-- end of record -->, where NAME is a benchmark,
or "all" for README.md. It shows every contender of its benchmark: no row hides one that is faster,
and one that failed stands there, in docs/benchmarks.md with the reason.
README.md keeps figures that were measured by hand, and says so, until all of its benchmarks are
recorded.
"""

import dataclasses
import os
import re
import statistics
import textwrap

import record

README = os.path.join(record.REPOSITORY, "README.md")
PAGE = os.path.join(record.REPOSITORY, "docs", "benchmarks.md")
RECORD = os.path.join(record.REPOSITORY, "docs", "benchmarks")
BLOCK = re.compile(r"(<!-- record: (\w+) -->\n).*?(<!-- end of record -->)", re.DOTALL)
OURS = "outboard"
# Benchmarks whose contenders are all ours: profiles, for one.
OURS_ALONE = {"boot", "snapshot"}
# README.md says this of figures that no record has.
BY_HAND = "Measured by hand, before there was a record"


@dataclasses.dataclass
class Row:
    """A row of README.md: a result of a benchmark."""

    what: str
    benchmark: str
    result: str


ROWS = [
    Row("null call (getppid)", "null_call", "null call (getppid), one thread"),
    Row("instructions of that", "instructions", "instructions of getppid"),
    Row("two threads against one", "null_call", "two threads against one, calls per second"),
    Row("pipe ping-pong of two threads, one vCPU", "switching",
        "pipe ping-pong of two threads, 1 vCPU"),
    Row("the same, two vCPUs", "switching", "pipe ping-pong of two threads, 2 vCPUs"),
    Row("processor time of that", "switching", "pipe ping-pong, processor time of both, 2 vCPUs"),
    Row("thread created, one call, joined", "switching",
        "thread created, one call, joined, 2 vCPUs"),
    Row("`ls` of an ext4 image, whole process, sandboxed", "listing",
        "ls of an ext4 image, whole process"),
    Row("tar-in of 500 MB, 20,000 files, flushed", "tar_in_out",
        "tar-in of 500 MB, 20,000 files, into ext4, flushed"),
    Row("`cp -a` of 8,000 files, 114 MB, in, flushed", "copy_tree",
        "cp -a of 8,000 files, 114 MB, into ext4, flushed"),
    Row("the same out", "copy_tree", "the same out again"),
    Row("C API, ext4: first read of 512 MB after boot", "file_work",
        "ext4: first read of 512 MB after boot"),
    Row("the same, cold", "file_work", "ext4: cold read of 512 MB"),
    Row("the same, warm", "file_work", "ext4: warm read of 512 MB"),
    Row("2,000 files created, each with fsync", "file_work",
        "ext4: create and fsync of 2,000 files"),
    Row("boot to the first system call", "boot", "boot to the first system call"),
    Row("the same from a snapshot", "snapshot", "from a snapshot to the first system call"),
    Row("private memory after boot", "boot", "private dirty memory after boot"),
    Row("the same from a snapshot", "snapshot",
        "private dirty memory after a start from a snapshot"),
]


def digits(value: float) -> str:
    """Three digits of a number, all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(value: float, unit: str) -> str:
    """A figure with its unit, which is the next smaller or larger one where that is easier to read.
    """
    if unit == "s" and value < 0.1:
        value, unit = 1000 * value, "ms"
    elif unit == "ns" and value >= 1000:
        value, unit = value / 1000, "us"
    elif unit == "kB" and value >= 1000:
        value, unit = value / 1024, "MB"
    return f"{digits(value)} {unit}".strip()


def result_of(records: dict, row: Row) -> dict | None:
    results = records.get(row.benchmark, {"results": []})["results"]
    return next((result for result in results if result["name"] == row.result), None)


def paragraph(text: str) -> str:
    """The text in lines of at most 100 columns. A link stays whole."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def left_out(result: dict) -> dict[str, str]:
    """Contender without samples to what is shown of it."""
    reasons = result.get("left_out", {})
    return {who: "left out ({})".format(why.replace("|", r"\|")) for who, why in reasons.items()}


def medians(result: dict) -> dict[str, str]:
    """Contender to what is shown of it."""
    samples = result["samples"].items()
    figures = {who: shown(statistics.median(values), result["unit"]) for who, values in samples}
    return figures | left_out(result)


def readme_row(row: Row, result: dict) -> str:
    figures = medians(result) | dict.fromkeys(left_out(result), "left out")
    ours = "" if row.benchmark in OURS_ALONE else figures.pop(OURS)
    others = ", ".join(f"{who} {figure}" for who, figure in figures.items())
    return f"| {row.what} | {ours} | {others} |" if ours else f"| {row.what} | {others} | |"


def span(numbers: list) -> str:
    low, high = (digits(number) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


def circumstances(documents: list) -> str:
    """Commits, days, machine and load of some benchmarks."""

    def several(values) -> str:
        return ", ".join(sorted(set(map(str, values))))

    return (f"commit {several(one['commit'] for one in documents)}, "
            f"{several(one['date'][:10] for one in documents)}, "
            f"{several(one['processors'] for one in documents)} processors, "
            f"Linux {several(one['linux'] for one in documents)}, "
            f"load average {span([load for one in documents for load in one['load']])}")


def of_readme(records: dict) -> str | None:
    """The table of README.md. None: a benchmark is not recorded."""
    results = [result_of(records, row) for row in ROWS]
    if None in results:
        return None
    documents = [records[name] for name in sorted({row.benchmark for row in ROWS})]
    lines = [
        paragraph(f"Medians of `make bench`: {circumstances(documents)}."), "",
        "| what | Outboard | beside it |", "|---|---|---|"
    ]
    return "\n".join([*lines, *map(readme_row, ROWS, results)]) + "\n"


def cell(values: list, unit: str) -> str:
    """The median, and the least and the most."""
    least, most = min(values), max(values)
    spread = f" ({shown(least, unit)} to {shown(most, unit)})" if least != most else ""
    return shown(statistics.median(values), unit) + spread


def verdict(result: dict) -> str:
    reached = {None: "", True: ": reached", False: ": **not reached**"}[result["reached"]]
    ratio = "" if result["ratio"] is None else f" ({result['ratio']:.2f})"
    return f"{result['target']}{reached}{ratio}"


def of_benchmark(document: dict) -> str:
    """All results of a benchmark: a table for each set of contenders."""
    lines = [
        paragraph(f"`{document['command']}`: {circumstances([document])}; "
                  f"[samples](benchmarks/{document['benchmark']}.json)."),
        "",
    ]
    contenders: list[str] = []
    for result in document["results"]:
        cells = {who: cell(values, result["unit"]) for who, values in result["samples"].items()}
        cells |= left_out(result)
        if list(cells) != contenders:
            contenders = list(cells)
            lines += [
                "", f"| what | {' | '.join(contenders)} | to reach |",
                f"|---|{'---|' * len(contenders)}---|"
            ]
        lines.append(f"| {result['name']} | {' | '.join(cells.values())} | {verdict(result)} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def block(name: str, old: str, records: dict) -> str:
    """The text between the marks of a block; `old` is the present text."""
    if name == "all":
        return of_readme(records) or old
    if name in records:
        return of_benchmark(records[name])
    return f"No record yet: `bench/run {name} --record docs/benchmarks`.\n"


def page(text: str, records: dict) -> str:
    """A page with its tables as the records say."""

    def fill(found: re.Match) -> str:
        old = found[0][len(found[1]):-len(found[3])]
        return found[1] + block(found[2], old, records) + found[3]

    return BLOCK.sub(fill, text)


def main() -> None:
    records = record.read(RECORD)
    for path in (README, PAGE):
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(page(text, records))


if __name__ == "__main__":
    main()
