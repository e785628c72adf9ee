# SPDX-License-Identifier: GPL-2.0-only
"""Linux kernel code as a library: boots kernels in this process, and gives their sockets.

    import outboard
    from outboard import net

    with outboard.Kernel() as kernel:
        kernel.net_add("user,dhcp")
        with net.create_connection(("192.0.2.1", 80), timeout=10) as connection:
            connection.sendall(b"...")

docs/python.md describes the package. It needs liboutboard.so.0, and nothing else.
"""

from outboard._kernel import Interface, Kernel, KernelError, default_kernel

__all__ = ["Interface", "Kernel", "KernelError", "default_kernel"]
