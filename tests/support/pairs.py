# SPDX-License-Identifier: GPL-2.0-only
"""Parameters of tests on two things that do not depend on each other."""

import pytest


def pairs(firsts, seconds, usual_first, usual_second) -> list:
    """All pairs. Those in which neither value is the usual one are long: `make test` has each value
    with the usual one of the other kind.
    """
    return [pytest.param(first, second, marks=() if first == usual_first or second == usual_second
                         else pytest.mark.long)
            for first in firsts for second in seconds]
