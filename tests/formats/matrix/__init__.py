# SPDX-License-Identifier: GPL-2.0-only
"""The file-system matrix: every type that the program knows, against other people's tools."""
