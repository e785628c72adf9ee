# SPDX-License-Identifier: GPL-2.0-only
"""How tests wait: for states, with guards against hangs that also hold on a machine with a load
of 10.

conftest.py puts `Popen` in the place of subprocess.Popen, so every test keeps the rule: a limit
of 10 seconds or more is a guard against a hang, and lasts at least GUARD seconds. A shorter limit
is meant as it stands.
"""

import subprocess
import time

GUARD = 300
SHORTEST_GUARD = 10


def guard(limit):
    return limit if limit is None or limit < SHORTEST_GUARD else max(limit, GUARD)


class Popen(subprocess.Popen):
    def wait(self, timeout=None):
        return super().wait(guard(timeout))

    def communicate(self, input=None, timeout=None):
        return super().communicate(input, guard(timeout))


def wait_until(holds, what, seconds=GUARD):
    """Waits until holds() is true, and returns its value. `what` names the state in the failure."""
    deadline = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < deadline, f"after {seconds} s not so: {what}"
        time.sleep(0.01)
    return value
