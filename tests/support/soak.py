# SPDX-License-Identifier: GPL-2.0-only
"""The soak: builds and runs tests/library/soak/soak.c, checks the file systems that it leaves,
draws its memory.
"""

import dataclasses
import os
import subprocess

from . import c_programs, host, images, program

SOURCES = [
    os.path.join(program.REPOSITORY, "tests", *names)
    for names in (("library", "soak", "soak.c"), ("library", "client.c"))
]


@dataclasses.dataclass
class Sample:
    second: float
    resident: int       # MB of the process
    total: int          # MB that the kernel has
    free: int           # MB of them
    pressure: bool


def compile_program(directory: str) -> str:
    return c_programs.build(os.path.join(directory, "soak"), *SOURCES,
                            flags=("-std=gnu11", "-I", os.path.dirname(SOURCES[1])))


def run(directory: str, seconds: int) -> tuple:
    """Returns the samples and the line of counts. Raises if the program complains or a checker
    does.
    """
    ext4, xfs = (os.path.join(directory, f"{name}.img") for name in ("ext4", "xfs"))
    images.make(ext4, "ext4", 400)
    images.make(xfs, "xfs", 400)
    done = subprocess.run(
        [compile_program(directory), str(seconds), ext4, xfs], capture_output=True, text=True,
        timeout=seconds + 300, check=False)
    assert done.returncode == 0, (f"ended with {done.returncode}\n{done.stdout[-500:]}\n"
                                  f"{done.stderr[-5000:]}")
    host.run("e2fsck", "-f", "-n", ext4)
    host.run("xfs_repair", "-n", xfs)
    *lines, counts = done.stdout.splitlines()
    return [parse(line) for line in lines], counts


def parse(line: str) -> Sample:
    second, resident, total, free, pressure = line.split()
    return Sample(float(second), int(resident), int(total), int(free), pressure == "1")


def draw(samples: list, path: str) -> None:
    """Resident memory over time, and what the kernel uses of it; grey where there is pressure."""
    import matplotlib  # only who draws needs it

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(9, 4))
    seconds = [sample.second for sample in samples]
    axis.plot(seconds, [sample.resident for sample in samples], color="tab:orange",
              label="resident memory of the process")
    axis.plot(seconds, [sample.total - sample.free for sample in samples], color="tab:blue",
              linewidth=0.8, label="in use in the kernel")
    axis.fill_between(seconds, 0, 1, where=[sample.pressure for sample in samples],
                      transform=axis.get_xaxis_transform(), color="lightgrey",
                      label="memory is full")
    axis.set_xlabel("seconds")
    axis.set_ylabel("MB")
    axis.set_ylim(0)
    axis.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
