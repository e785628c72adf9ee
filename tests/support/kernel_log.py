# SPDX-License-Identifier: GPL-2.0-only
"""Warnings of all kernels that the tests run. They append to the file $OUTBOARD_LOG_FILE, also
where nobody reads their standard error: in servers of mounts, and in programs of the C API.

Each test has a file of its own. A server that outlives its test writes to the file of the test
that started it, so a late report names the right test.
"""

import dataclasses
import os

from support import program


@dataclasses.dataclass
class Log:
    path: str
    test: object  # pytest's item
    seen: int = 0

    def report(self, position: int) -> str:
        """The log since then, from its first report on. Empty: there is no report."""
        with open(self.path, "rb") as stream:
            stream.seek(position)
            data = stream.read()
        self.seen = max(self.seen, position + len(data))
        text = data.decode(errors="replace")
        for found in program.REPORT.finditer(text):
            if not program.KNOWN_REPORT.match(text, found.start()):
                return text[text.rfind("\n", 0, found.start()) + 1:]
        return ""


logs = []


def directory() -> str:
    return os.path.join(program.OUT, "test-results", f"kernel-warnings-{os.getpid()}")


def begin(test) -> None:
    """Kernels that start from now on belong to this test."""
    os.makedirs(directory(), exist_ok=True)
    path = os.path.join(directory(), f"{len(logs)}.log")
    with open(path, "wb"):
        # Programs of other users write to it as well.
        os.chmod(path, 0o666)
    logs.append(Log(path, test))
    os.environ["OUTBOARD_LOG_FILE"] = path


def size() -> int:
    return os.stat(logs[-1].path).st_size


def report_since(position: int) -> str:
    """The report of this test since then, as of Log.report."""
    return logs[-1].report(position)


def late_reports() -> list:
    """(Test, report) of kernels that have reported something since their test ended."""
    late = [(log.test, log.report(log.seen)) for log in logs
            if os.stat(log.path).st_size > log.seen]
    return [(test, report) for test, report in late if report]


def remove_empty() -> None:
    for log in logs:
        if os.path.exists(log.path) and not os.stat(log.path).st_size:
            os.unlink(log.path)
    if os.path.isdir(directory()) and not os.listdir(directory()):
        os.rmdir(directory())
