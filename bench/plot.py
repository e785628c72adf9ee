# SPDX-License-Identifier: GPL-2.0-only
"""One picture of all results: a row of bars per benchmark, ours in another colour."""

import os
import statistics

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402  (after the choice of the backend)


def draw(results: list, directory: str) -> str:
    """Writes bench.svg and bench.png to the directory. Returns the path of the first."""
    figure, axes = pyplot.subplots(len(results), 1, figsize=(8, 1.5 * len(results) + 0.5),
                                   squeeze=False)
    for axis, result in zip(axes[:, 0], results):
        names = list(result.samples)[::-1]
        values = [statistics.median(result.samples[name]) for name in names]
        low = [value - min(result.samples[name]) for name, value in zip(names, values)]
        high = [max(result.samples[name]) - value for name, value in zip(names, values)]
        colours = ["tab:orange" if name.startswith("outboard") else "tab:blue" for name in names]
        axis.barh(names, values, xerr=[low, high], color=colours, error_kw={"elinewidth": 0.8})
        axis.set_title(f"{result.name} [{result.unit}]", fontsize=8, loc="left")
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    path = os.path.join(directory, "bench.svg")
    figure.savefig(path)
    figure.savefig(os.path.join(directory, "bench.png"), dpi=120)
    return path
