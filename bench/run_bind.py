# SPDX-License-Identifier: GPL-2.0-only
"""Work of programs on a directory of the host: `--bind` of `outboard run`, beside the host by
chroot, UML's hostfs and a volume of gVisor.

The clock runs inside, around the work: a script prints the seconds of each row.
"""

import os

from contenders import OURS, Contender, Result, host, take_turns
from debian_system import SCRIPTS, System, system
from programs import GVISOR, NATIVE, UML, figures_of

ROUNDS_MOST = 5
SECONDS_MOST = 300
FILES, MEGABYTES = 20000, 1024
RATIO_LEAST = 0.5
PLACE = "/mnt"
# Row to the unit's amount and the unit.
ROWS = {
    "write": (f"--bind: write of {MEGABYTES} MB", MEGABYTES, "MB/s"),
    "read": (f"--bind: read of {MEGABYTES} MB", MEGABYTES, "MB/s"),
    "create": (f"--bind: {FILES:,} files created", FILES, "1/s"),
    "list": (f"--bind: {FILES:,} files listed by ls -l", FILES, "1/s"),
}
WORK = f"""
timed() {{ # NAME COMMAND...: a line with its name and its microseconds
    local start=${{EPOCHREALTIME/./}}
    "${{@:2}}"
    echo "$1 $((${{EPOCHREALTIME/./}} - start))"
}}
create() {{ seq {FILES} | xargs touch; }}
list() {{ ls -l >/tmp/list; }}

cd {PLACE}
timed read dd if=kept of=/dev/null bs=1M status=none
timed write dd if=/dev/zero of=written bs=1M count={MEGABYTES} status=none
mkdir created
cd created
timed create create
cd ../listed
timed list list
[ "$(wc -l </tmp/list)" = {FILES + 1} ]
"""
# For UML, with the directory of the host as its argument.
ON_HOSTFS = f"""mount -t hostfs -o "$1" none {PLACE}
exec {SCRIPTS}/work
"""


class Directory:
    """What programs work on, in a directory for temporary files."""

    def __init__(self, directory: str):
        self.path = os.path.join(directory, "bound")
        self.kept = os.path.join(self.path, "kept")
        listed = os.path.join(self.path, "listed")
        os.makedirs(listed)
        host.run("dd", "if=/dev/zero", f"of={self.kept}", "bs=1M", f"count={MEGABYTES}")
        host.run("xargs", "touch", cwd=listed, input=" ".join(map(str, range(FILES))))

    def measure(self, command: list[str]) -> dict[str, float]:
        """Seconds by row. All that is read is in the host's page cache."""
        host.run("dd", f"if={self.kept}", "of=/dev/null", "bs=1M")
        host.run("ls", "-l", f"{self.path}/listed")
        try:
            output = host.run("timeout", SECONDS_MOST, *command).stdout
        finally:
            host.run("rm", "-rf", f"{self.path}/written", f"{self.path}/created")
            host.run("sync", "-f", self.path)
        return figures_of(output, ROWS, 1e6, command[0])


def native(made: System, directory: Directory) -> dict[str, float]:
    with made.native() as root:
        place = root + PLACE
        host.run("mount", "--bind", directory.path, place)
        try:
            return directory.measure(made.chroot(f"{SCRIPTS}/work", root=root))
        finally:
            host.unmount(place)


def uml(made: System, directory: Directory) -> dict[str, float]:
    made.forget_changes()
    return directory.measure(made.uml(f"{SCRIPTS}/hostfs", directory.path))


def judged(result: Result) -> Result:
    result.target = f"at least {RATIO_LEAST} of {NATIVE}"
    if OURS in result.samples and NATIVE in result.samples:
        result.ratio = result.pair(OURS, NATIVE)
        result.reached = result.ratio >= RATIO_LEAST
    return result


def run_bind(rounds: int) -> list[Result]:
    """Programs in an image that work on a directory of the host."""
    if os.geteuid() != 0:
        print("left out: run_bind: only root may change the root directory")
        return []
    with system({"work": WORK, "hostfs": ON_HOSTFS}) as made:
        directory = Directory(os.path.dirname(made.tree))
        bound = f"{directory.path}:{PLACE}"
        turns = take_turns([
            Contender(NATIVE, lambda: native(made, directory)),
            Contender(OURS, lambda: directory.measure(
                made.outboard(f"{SCRIPTS}/work", options=("--bind", bound)))),
            Contender(UML, lambda: uml(made, directory)),
            Contender(GVISOR, lambda: directory.measure(
                made.gvisor_bundle(f"{SCRIPTS}/work", bound=directory.path, place=PLACE))),
        ], min(rounds, ROUNDS_MOST))
    return [judged(turns.result(what, unit, "",
                                lambda measured, row=row, amount=amount: amount / measured[row]))
            for row, (what, amount, unit) in ROWS.items()]
