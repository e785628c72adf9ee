# SPDX-License-Identifier: GPL-2.0-only
"""The record of the benchmarks, and the tables of README.md and docs/benchmarks.md that are made
from it (bench/tables.py).
"""

import json
import os
import re
import statistics
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))

import contenders  # noqa: E402  (needs the path above)
import measure  # noqa: E402
import record  # noqa: E402
import tables  # noqa: E402
from contenders import Result  # noqa: E402
from support import host, program  # noqa: E402


def read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def measured(name: str, unit: str, samples: dict, target: str = "shown",
             reached: bool | None = None, ratio: float | None = None) -> Result:
    return Result(name, unit, samples, target, reached, ratio)


def document(name: str, *results: Result) -> dict:
    return json.loads(record.text(name, list(results), 3, "abc1234", 0.25))


def all_of_readme() -> dict:
    """A record that has every row of README.md."""
    names: dict = {}
    for row in tables.ROWS:
        results = names.setdefault(row.benchmark, [])
        ours = "base" if row.benchmark in tables.OURS_ALONE else "outboard"
        samples = {ours: [0.5, 0.25, 0.0123456789], "a faster peer": [0.125]}
        results.append(measured(row.result, "s", samples))
    return {name: document(name, *results) for name, results in names.items()}


@pytest.mark.parametrize("path", [tables.README, tables.PAGE], ids=os.path.basename)
def test_pages_show_the_record(path):
    records = record.read(tables.RECORD)
    assert read(path) == tables.page(read(path), records), "run: bench/tables.py"


def test_readme_says_where_its_figures_are_from():
    block = re.search(r"<!-- record: all -->\n(.*?)<!-- end of record -->",
                      read(tables.README), re.DOTALL)[1]
    by_hand = tables.of_readme(record.read(tables.RECORD)) is None
    assert block.startswith(tables.BY_HAND if by_hand else "Medians of `make bench`: commit ")


def medians(benchmark: str, name: str) -> dict:
    """Of each contender of a recorded result."""
    results = record.read(tables.RECORD)[benchmark]["results"]
    samples, = (result["samples"] for result in results if result["name"] == name)
    return {contender: statistics.median(values) for contender, values in samples.items()}


def test_sentences_agree_with_the_record():
    """Figures of boots that stand in sentences."""
    boots = medians("boot", "boot to the first system call").values()
    assert 2 <= min(boots) and max(boots) <= 5
    assert "A boot takes two to five milliseconds" in read(f"{record.REPOSITORY}/docs/boot.md")
    assert "is ready in milliseconds" in " ".join(read(tables.README).split())
    starts = medians("snapshot", "from a snapshot to the first system call")
    memory = medians("snapshot", "private dirty memory after a start from a snapshot")
    assert starts["with ext4"] < 1 and abs(memory["with ext4"] - 280) < 28
    page = " ".join(read(f"{record.REPOSITORY}/docs/snapshots.md").split())
    assert ("With ext4 loaded that takes less than a millisecond, and 0.28 MB of private memory"
            in page)


def test_every_benchmark_has_a_table():
    source = read(os.path.join(record.REPOSITORY, "bench", "measure.py"))
    known = set(re.findall(
        r'"(\w+)": \w+', source[source.index("BENCHMARKS = {"):].partition("}")[0]))
    assert len(known) > 10
    assert known == set(re.findall(r"<!-- record: (\w+) -->", read(tables.PAGE)))
    assert {row.benchmark for row in tables.ROWS} <= known


def test_readme_rows_name_results():
    """A row whose result is renamed would leave README.md by hand for ever."""
    sources = "".join(read(os.path.join(record.REPOSITORY, "bench", f"{name}.py"))
                      for name in ("measure", "filework", "tar_in_out"))
    for row in tables.ROWS:
        words = re.sub(r"^(ext4|instructions of|pipe|thread).*? ", "",
                       row.result).removesuffix(", 1 vCPU").removesuffix(", 2 vCPUs")
        assert words in sources, row


def test_a_record():
    samples = {"outboard": [0.0123456789, 2.0]}
    found = document("listing", measured("ls", "s", samples, "at most 1", False, 2.345678))
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
    assert all(("| base 0.25 s, " if row.benchmark in tables.OURS_ALONE else "| 0.25 s | ") in line
               for row, line in zip(tables.ROWS, rows, strict=True)), rows
    assert all("a faster peer 0.125 s" in row for row in rows), rows


def test_readme_waits_for_all_benchmarks():
    records = all_of_readme()
    old = "<!-- record: all -->\nby hand\n<!-- end of record -->"
    assert "by hand" not in tables.page(old, records)
    del records["boot"]
    assert tables.page(old, records) == old


def test_table_of_a_benchmark():
    samples = {"base": [1.5, 1.25, 2], "full": [3]}
    first = measured("first", "ms", samples, "at most 1 ms", False, 1.5)
    records = {"boot": document("boot", first, measured("size", "kB", {"base": [123456]}))}
    text = tables.page("a\n<!-- record: boot -->\nold\n<!-- end of record -->\nb\n", records)
    assert text.startswith(
        "a\n<!-- record: boot -->\n`bench/run boot --rounds 3`: commit abc1234, ")
    assert text.endswith("<!-- end of record -->\nb\n")
    assert "[samples](benchmarks/boot.json)" in text
    assert "| what | base | full | to reach |\n|---|---|---|---|\n" in text
    assert ("| first | 1.5 ms (1.25 ms to 2 ms) | 3 ms | at most 1 ms: **not reached** (1.50) |\n"
            in text)
    assert "\n\n| what | base | to reach |\n|---|---|---|\n| size | 121 MB | shown |\n" in text
    assert tables.page(text, records) == text


def fails_in_round(number: int, name: str) -> contenders.Contender:
    rounds = iter(range(1, 100))

    def run() -> float:
        if next(rounds) == number:
            output = f"{program.OUT}/bench/scratch: a|b is broken\n"
            raise host.ToolFailed(f"sh -ec ... ended with 1:\n{output}")
        return 2.0

    return contenders.Contender(name, run)


def turns_of(*names_and_rounds: tuple[str, int]) -> contenders.Turns:
    """Three rounds of contenders, of which each fails in its round."""
    failing = [fails_in_round(number, name) for name, number in names_and_rounds]
    return contenders.take_turns(failing, 3)


def test_a_contender_that_fails_is_left_out_with_the_reason(capsys):
    turns = turns_of(("outboard", 0), ("a peer", 2), ("another", 0))
    assert turns.samples == {"outboard": [2.0] * 3, "another": [2.0] * 3}
    assert turns.left_out == {"a peer": "round 2 of 3: out/bench/scratch: a|b is broken"}
    assert "left out: a peer, round 2: sh -ec ... ended with 1:" in capsys.readouterr().err
    result = turns.result("copy", "s", "shown", lambda taken: 2 * taken)
    assert (result.samples["outboard"], result.left_out) == ([4.0] * 3, turns.left_out)
    measure.print_result(result)
    assert re.search(r"a peer +left out: round 2 of 3: out/", capsys.readouterr().out)


FAILED = r"left out (round 1 of 3: out/bench/scratch: a\|b is broken)"


def test_tables_name_a_contender_that_failed():
    turns = turns_of(("outboard", 0), ("a peer", 1), ("another", 0))
    found = document("listing", turns.result("one", "ms", "shown"))
    text = tables.of_benchmark(found)
    assert "| what | outboard | another | a peer | to reach |\n" in text
    assert f"| one | 2 ms | 2 ms | {FAILED} | shown |\n" in text
    row = tables.Row("a row", "listing", "one")
    shown = tables.readme_row(row, found["results"][0])
    assert shown == "| a row | 2 ms | another 2 ms, a peer left out |"


def test_a_peer_is_never_shown_as_ours():
    turns = turns_of(("outboard", 1), ("a peer", 0))
    found = document("file_work", turns.result("one", "ms", "shown"))
    row = tables.Row("a row", "file_work", "one")
    assert tables.readme_row(row, found["results"][0]) == "| a row | left out | a peer 2 ms |"


def refused(monkeypatch, capsys, *words: str) -> str:
    """The message of measure.py when it refuses a record before it has measured anything."""
    monkeypatch.setattr(sys, "argv", ["measure.py", *words])
    listing = {"listing": lambda rounds: pytest.fail("it measures")}
    monkeypatch.setattr(measure, "BENCHMARKS", listing)
    with pytest.raises(SystemExit) as ended:
        measure.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_record_needs_rounds_and_committed_sources(monkeypatch, capsys, tmp_path):
    def answer(*words: str) -> str:
        return refused(monkeypatch, capsys, *words)

    monkeypatch.setattr(record, "commit", lambda: "abc1234")
    assert "at least 5 rounds" in answer("--record", str(tmp_path), "--rounds", "4")
    monkeypatch.setattr(record, "commit", lambda: f"abc1234{record.CHANGED}")
    assert "commit the changes and new files" in answer("--record", str(tmp_path))
    assert "unrecognized arguments: --rec" in answer("--rec", str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("git")
def test_a_new_file_is_a_change(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "REPOSITORY", str(tmp_path))

    def git(*words: str) -> None:
        host.run("git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words)

    git("init", "-q")
    (tmp_path / "a.c").write_text("int a;\n")
    git("add", "a.c")
    git("commit", "-q", "-m", "one")
    assert not record.commit().endswith(record.CHANGED)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.svg").write_text("a\n")
    (tmp_path / "new.md").write_text("a\n")
    assert not record.commit().endswith(record.CHANGED)
    (tmp_path / "new.c").write_text("int b;\n")
    assert record.commit().endswith(record.CHANGED)
    git("add", "new.c")
    git("commit", "-q", "-m", "two")
    assert not record.commit().endswith(record.CHANGED)
    (tmp_path / "a.c").write_text("int c;\n")
    assert record.commit().endswith(record.CHANGED)


def test_a_record_is_of_what_was_just_built(tmp_path):
    """bench/run with a `make` that notes its arguments, and fails at the last library."""
    make, notes = tmp_path / "make", tmp_path / "notes"
    make.write_text(f'#!/bin/sh\necho "$OUTBOARD_OUT $OUTBOARD_PROGRAM $*" >> "{notes}"\n'
                    'case $* in *SMP=n*) exit 3;; esac\n')
    make.chmod(0o755)
    variables = host.environment(OUTBOARD_OUT=str(tmp_path), OUTBOARD_PROGRAM="another")
    variables["PATH"] = f"{tmp_path}:{host.PATH}"
    run = os.path.join(record.REPOSITORY, "bench", "run")
    done = subprocess.run([run, "listing", "--record", str(tmp_path)], env=variables,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 3, done
    lines = notes.read_text().splitlines()
    assert [line.split()[-3:] for line in lines] == [["PROFILE=full", "SMP=y", "program"],
                                                     ["PROFILE=base", "SMP=y", "library"],
                                                     ["PROFILE=base", "SMP=n", "library"]]
    start = f"{record.REPOSITORY}/out  "
    assert all(line.startswith(start) and "DEBUG=0" in line for line in lines), lines


def test_a_reader_that_fails_fails_the_contender(tmp_path):
    with pytest.raises(host.ToolFailed, match="No such file"):
        contenders.seconds("sh", "-ec", measure.FOUR_READERS, "sh", tmp_path / "missing")


def test_without_matplotlib_there_is_no_plot(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "plot", raising=False)
    assert measure.plotted([measured("one", "s", {"outboard": [1]})]).startswith("no plot: ")


@pytest.mark.long
def test_they_run():
    """Short ones, with all that `bench/run` compiles before."""
    names = ("null_call", "instructions", "listing")
    said = host.run(os.path.join(record.REPOSITORY, "bench", "run"), *names, "--rounds", "1",
                    timeout=600).stdout
    assert "ls of an ext4 image, whole process" in said
    found = record.read(os.path.join(program.OUT, "bench"))
    assert found["listing"]["command"] == "bench/run listing --rounds 1"
    assert len(found["null_call"]["results"][0]["samples"]["outboard"]) == 1
    counts = {result["name"]: result["samples"]["outboard"]
              for result in found["instructions"]["results"]}
    assert len(counts) == 4 and 50 < counts["instructions of getppid"][0] < 300, counts
