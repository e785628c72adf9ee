# SPDX-License-Identifier: GPL-2.0-only
"""The record of the benchmarks, and the tables of README.md and docs/benchmarks.md that are made from it (bench/tables.py)."""

import json
import os
import re
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import record  # noqa: E402  (needs the path above)
import tables  # noqa: E402


from support import host, program  # noqa: E402


def read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class Measured:
    """As contenders.Result."""

    def __init__(self, name, unit, samples, target="shown", reached=None, ratio=None):
        self.name, self.unit, self.samples = name, unit, samples
        self.target, self.reached, self.ratio = target, reached, ratio


def document(name: str, *results: Measured) -> dict:
    return json.loads(record.text(name, list(results), 3, "abc1234", 0.25))


def all_of_readme() -> dict:
    """A record that has every row of README.md."""
    names: dict = {}
    for row in tables.ROWS:
        results = names.setdefault(row.benchmark, [])
        results.append(Measured(row.result, "s", {"outboard": [0.5, 0.25, 0.0123456789], "a faster peer": [0.125]}))
    return {name: document(name, *results) for name, results in names.items()}


@pytest.mark.parametrize("path", [tables.README, tables.PAGE], ids=os.path.basename)
def test_pages_show_the_record(path):
    records = record.read(tables.RECORD)
    assert read(path) == tables.page(read(path), records), "run: bench/tables.py"


def test_readme_says_where_its_figures_are_from():
    block = re.search(r"<!-- record: all -->\n(.*?)<!-- end of record -->", read(tables.README), re.DOTALL)[1]
    by_hand = tables.of_readme(record.read(tables.RECORD)) is None
    assert block.startswith(tables.BY_HAND if by_hand else "Medians of `make bench`: commit ")


def test_every_benchmark_has_a_table():
    source = read(os.path.join(record.REPOSITORY, "bench", "measure.py"))
    known = set(re.findall(r'"(\w+)": \w+', source[source.index("BENCHMARKS = {"):].partition("}")[0]))
    assert len(known) > 10
    assert known == set(re.findall(r"<!-- record: (\w+) -->", read(tables.PAGE)))
    assert {row.benchmark for row in tables.ROWS} <= known


def test_readme_rows_name_results():
    """A row whose result is renamed would leave README.md by hand for ever."""
    sources = "".join(read(os.path.join(record.REPOSITORY, "bench", f"{name}.py"))
                      for name in ("measure", "filework", "tar_in_out"))
    for row in tables.ROWS:
        words = re.sub(r"^(ext4|instructions of|pipe|thread).*? ", "", row.result).removesuffix(", 1 vCPU").removesuffix(", 2 vCPUs")
        assert words in sources, row


def test_a_record():
    found = document("listing", Measured("ls", "s", {"outboard": [0.0123456789, 2.0]}, "at most 1", False, 2.345678))
    assert found["command"] == "bench/run listing --rounds 3"
    assert found["commit"] == "abc1234"
    assert found["load"][0] == 0.25
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", found["date"])
    assert found["results"][0]["samples"] == {"outboard": [0.0123457, 2.0]}
    assert (found["results"][0]["reached"], found["results"][0]["ratio"]) == (False, 2.34568)


def test_no_contender_is_left_out():
    lines = tables.of_readme(all_of_readme()).splitlines()
    assert "commit abc1234" in lines[0]
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) == len(tables.ROWS)
    assert all("| 250 ms |" in row or "| 0.25 s |" in row for row in rows), rows
    assert all("a faster peer 0.125 s" in row for row in rows), rows


def test_readme_waits_for_all_benchmarks():
    records = all_of_readme()
    old = "<!-- record: all -->\nby hand\n<!-- end of record -->"
    assert "by hand" not in tables.page(old, records)
    del records["boot"]
    assert tables.page(old, records) == old


def test_table_of_a_benchmark():
    records = {"boot": document("boot", Measured("first", "ms", {"base": [1.5, 1.25, 2], "full": [3]}, "at most 1 ms", False, 1.5),
                                Measured("size", "kB", {"base": [123456]}))}
    text = tables.page("a\n<!-- record: boot -->\nold\n<!-- end of record -->\nb\n", records)
    assert text.startswith("a\n<!-- record: boot -->\n`bench/run boot --rounds 3`: commit abc1234, ") and text.endswith("<!-- end of record -->\nb\n")
    assert "[samples](benchmarks/boot.json)" in text
    assert "| what | base | full | to reach |\n|---|---|---|---|\n" in text
    assert "| first | 1.5 ms (1.25 ms to 2 ms) | 3 ms | at most 1 ms: **not reached** (1.50) |\n" in text
    assert "\n\n| what | base | to reach |\n|---|---|---|\n| size | 121 MB | shown |\n" in text
    assert tables.page(text, records) == text


@pytest.mark.long
def test_they_run():
    """Two short ones, with all that `bench/run` compiles before."""
    pytest.importorskip("matplotlib", reason="matplotlib, which draws the plot, is not installed")
    said = host.run(os.path.join(record.REPOSITORY, "bench", "run"), "null_call", "listing", "--rounds", "1", timeout=600).stdout
    assert "ls of an ext4 image, whole process" in said
    found = record.read(os.path.join(program.OUT, "bench"))
    assert found["listing"]["command"] == "bench/run listing --rounds 1"
    assert len(found["null_call"]["results"][0]["samples"]["outboard"]) == 1
