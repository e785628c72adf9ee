# SPDX-License-Identifier: GPL-2.0-only
"""How outboard-gdb.py reads a kernel that is in a process or in a core dump. Nothing here changes
the process.
"""
