# SPDX-License-Identifier: GPL-2.0-only
"""The end that all checks of the sources have."""

import os
import sys
from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def verdict(bad: list[str], good: str, advice: str = "") -> int:
    """Prints the complaints and the advice, or what is good. Returns the exit code."""
    if bad:
        print("\n".join(bad + [advice] * bool(advice)))
        return 1
    print(good)
    return 0


def run(main: Callable[[str], int]) -> None:
    """Runs a check on the repository."""
    sys.exit(main(ROOT))
