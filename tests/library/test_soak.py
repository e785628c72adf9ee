# SPDX-License-Identifier: GPL-2.0-only
"""A short soak: half of it with less memory than is wanted, half without. `make soak` lasts ten
minutes.
"""

import pytest

from support import soak

SECONDS = 30


@pytest.mark.long
@pytest.mark.needs("mkfs.xfs", "xfs_repair", "e2fsck")
def test_soak(work):
    samples, counts = soak.run(work, SECONDS)
    words = counts.split()
    done = dict(zip(words[::2], map(int, words[1::2])))
    assert all(done[name] for name in ("files", "messages", "mounts", "drops")), counts
    assert done["full"] > 0, f"memory was never full: {counts}"
    full = max(sample.resident for sample in samples if sample.pressure)
    calm = min(sample.resident for sample in samples if not sample.pressure)
    assert full > 200, f"only {full} MB were ever used"
    assert calm < full * 0.7, f"{calm} of {full} MB are still held when memory is free"
