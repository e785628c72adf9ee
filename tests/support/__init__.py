# SPDX-License-Identifier: GPL-2.0-only
"""Code that the tests share: trees of files, host tools and loop mounts, the program under test."""
