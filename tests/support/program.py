# SPDX-License-Identifier: GPL-2.0-only
"""The program under test: where it is, how it is run, and how it must never end."""

import os
import re
import subprocess

import pytest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.environ.get("OUTBOARD_OUT") or os.path.join(REPOSITORY, "out")
# OUTBOARD_PROGRAM: another build of it, such as one whose kernel checks itself (DEBUG=1, SANITIZE).
PROGRAM = os.environ.get("OUTBOARD_PROGRAM") or os.path.join(OUT, "bin", "outboard")
CHECKS_ITSELF = PROGRAM.endswith(("-debug", "-asan", "-ubsan"))

# Exit code after a panic of the kernel.
PANIC = 70

# Where test_kunit.py leaves its reports for the summary at the end of the run.
KUNIT_REPORTS = pytest.StashKey()

# In notes of what the destination of a copy cannot hold.
LOSSES = ("not kept: ",)

# Text that no user may ever see, whatever the image.
FORBIDDEN = ("panicked at", "RUST_BACKTRACE", "AddressSanitizer", "stack backtrace")


# Reports of a kernel that checks itself, and lines that it always prints.
REPORT = re.compile(r"WARNING: |BUG: |KASAN: |UBSAN: |INFO: possible|INFO: task|INFO: rcu_|"
                    r"INFO: trying|suspicious RCU|Slab corruption|list_(?:add|del) corruption")
# Reports about Linux itself, on good images, that docs/debugging.md lists.
# And what md says of an array whose members are partitions of one disk.
KNOWN_REPORT = re.compile(r"UBSAN: shift-out-of-bounds in \S*/fs/ufs/super\.c:|"
                          r"WARNING: \S+ appears to be on the same physical disk")
LOG_LINE = re.compile(r"^\[ *\d+\.\d+\] .*\n?", re.MULTILINE)


class Reported(AssertionError):
    """The kernel has found something wrong in itself; `line` says what."""

    def __init__(self, command: str, report: str):
        super().__init__(f"{command}: the kernel reports\n{report[:6000]}")
        self.line = report.splitlines()[0]


class Result:
    """How one run of the program ended."""

    def __init__(self, done: subprocess.CompletedProcess):
        self.code = done.returncode
        self.raw = done.stdout
        self.out = done.stdout.decode(errors="surrogateescape")
        self.err = done.stderr.decode(errors="replace")
        self.command = " ".join(map(str, done.args))
        self.log = ""

    def take_log(self):
        """Moves the kernel's log from standard error to `log`. There must be no report in it."""
        self.log = "".join(LOG_LINE.findall(self.err))
        for found in REPORT.finditer(self.log):
            if not KNOWN_REPORT.match(self.log, found.start()):
                raise Reported(self.command, self.log[found.start():])
        self.err = LOG_LINE.sub("", self.err)

    def __str__(self):
        return f"{self.command} ended with {self.code}\n{self.out[-1500:]}\n{self.err[-3000:]}"

    @property
    def kernel_bug(self) -> bool:
        """The documented end when an image makes the kernel itself BUG or oops: a message and this
        exit code.
        """
        return self.code == PANIC and "outboard: kernel panic: " in self.err


def command(*words, vcpus=None) -> list:
    chosen = ["--vcpus", str(vcpus)] if vcpus else []
    return [PROGRAM, *chosen, *map(str, words)]


def run(*words, vcpus=None, timeout=120, cwd=None, prefix=(), **variables) -> Result:
    """Runs `outboard words...` to its end. A hang is subprocess.TimeoutExpired."""
    if CHECKS_ITSELF:
        variables.setdefault("OUTBOARD_LOG", "warning")
    done = subprocess.run([*prefix, *command(*words, vcpus=vcpus)], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=timeout, cwd=cwd,
                          env={**os.environ, **variables}, check=False)
    result = Result(done)
    if CHECKS_ITSELF:
        result.take_log()
    for text in FORBIDDEN:
        assert text not in result.err, f"a user must not see {text!r}\n{result}"
    return result


def good(*words, notes=(), **options) -> Result:
    """A run that must succeed. On standard error, it prints notes ("outboard: note: ...") and lines
    with a word of `notes` in them, and nothing else.
    """
    result = run(*words, **options)
    assert result.code == 0, str(result)
    odd = [line for line in result.err.splitlines() if not line.startswith("outboard: note: ")
           and not any(note in line for note in notes)]
    assert not odd, f"success, but this was printed: {odd[0]}\n{result}"
    return result


def bad(*words, code=1, mentions=(), **options) -> Result:
    """A run that must fail with this exit code and a message that mentions these words (any case).
    """
    result = run(*words, **options)
    assert result.code == code, f"expected exit code {code}\n{result}"
    for word in mentions:
        word = str(word).lower()
        assert word in result.err.lower(), f"the message does not mention {word!r}\n{result}"
    assert result.err.strip(), f"no message\n{result}"
    return result
