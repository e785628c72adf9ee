# SPDX-License-Identifier: GPL-2.0-only
"""The samples of one benchmark as a file: with the commit, the date, the machine, its load, the
command.
"""

import datetime
import glob
import json
import os
import re
import subprocess

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# At the end of a commit's name: what was measured is not what was committed.
CHANGED = " with changes"
# Tables and texts do not change what is measured.
SOURCES = (".", ":!docs", ":!*.md")


def git(*words: str) -> subprocess.CompletedProcess:
    command = ["git", "-c", "safe.directory=*", "-C", REPOSITORY, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def commit() -> str:
    """The commit that is measured."""
    found = git("log", "-1", "--format=%h").stdout.strip()
    if not found:
        return f"unknown{CHANGED}"
    # A new file counts, too: the build may take it up.
    status = git("status", "--porcelain", "--untracked-files=normal", "--", *SOURCES)
    return found if status.returncode == 0 and not status.stdout else found + CHANGED


def short(value: float) -> float:
    """Six digits: a sample is no better."""
    return float(f"{value:.6g}")


def text(name: str, results: list, rounds: int, measured: str, load: float) -> str:
    """The document of a benchmark that has just ended. `load`: the load average before it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    document = {
        "benchmark": name,
        "command": f"bench/run {name} --rounds {rounds}",
        "commit": measured,
        "date": now.strftime("%Y-%m-%d %H:%M UTC"),
        "processors": os.cpu_count(),
        "linux": os.uname().release,
        "load": [short(load), short(os.getloadavg()[0])],
        "results": [{
            "name": result.name,
            "unit": result.unit,
            "target": result.target,
            "reached": result.reached,
            "ratio": None if result.ratio is None else short(result.ratio),
            "samples": {who: list(map(short, values))
                        for who, values in result.samples.items()},
            "left_out": result.left_out,
        } for result in results],
    }

    def on_one_line(found: re.Match) -> str:
        return f"[{' '.join(found[0][1:-1].split())}]"

    return re.sub(r"\[[^\[\]{}]*\]", on_one_line, json.dumps(document, indent=1)) + "\n"


def write(directory: str, name: str, document: str) -> None:
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as stream:
        stream.write(document)


def read(directory: str) -> dict:
    """Name of the benchmark to its document, of all that the directory has."""
    found = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.json"))):
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        if "benchmark" in document:
            found[document["benchmark"]] = document
    return found
