# SPDX-License-Identifier: GPL-2.0-only
"""A kernel in this process: boot, network interfaces, system calls, halt."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import warnings
import weakref
from types import TracebackType
from typing import Iterable

from outboard import _library

# Interfaces' names: IFNAMSIZ.
NAME_BYTES = 16
LOG_DEFAULT = -1
# Flags of struct ob_config: OB_SHARED_MEMORY, OB_CONTAIN_PANIC.
SHARED_MEMORY = 1
CONTAIN_PANIC = 2
# The only error of ob_instance_new(), for which the library has no text: no instance, no reason.
TOO_MANY = b"this process has 16 kernels already, which is the most: halt one"

# The kernels that run, the oldest first. One that the program forgets does not stay for this list.
_running: list[weakref.ref[Kernel]] = []
_lock = threading.Lock()


class KernelError(OSError):
    """A call of the library has failed. `strerror` has the library's reason."""


def _error(result: int, reason: bytes | None) -> KernelError:
    text = reason.decode(errors="replace") if reason else os.strerror(-result)
    return KernelError(-result, text)


def _bytes(text: str | os.PathLike[str] | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _halt_forgotten(library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
    """Stops a kernel that nobody can use any more."""
    library.ob_halt_on(handle)
    library.ob_instance_free(handle)
    warnings.warn("a kernel was forgotten without halt()", ResourceWarning, stacklevel=2)


def _forget(kernel: Kernel) -> None:
    """Takes a kernel off the list."""
    _running[:] = [known for known in _running if known() not in (None, kernel)]


def _whole(name: str, number: int) -> int:
    if number < 0:
        raise ValueError(f"{name} is {number}, less than 0")
    return number


class Interface:
    """A network interface that Kernel.net_add() has made."""

    def __init__(self, kernel: Kernel, number: int, name: str):
        self.kernel, self.number, self.name = kernel, number, name

    def __repr__(self) -> str:
        return f"<outboard.Interface {self.name}>"

    def configure(self, changes: str) -> None:
        """Changes the interface, as "ip=10.0.0.2/24,mtu=1400"."""
        self.kernel.net_configure(self.name, changes)

    def remove(self) -> None:
        """Removes it, and returns its leases."""
        library = _library.load()
        result = library.ob_net_remove_on(self.kernel.handle, self.number)
        if result < 0:
            raise _error(result, library.ob_net_error())


class Kernel:
    """A kernel of its own, which runs until halt() or the end of the `with` block.

    One that the program forgets is halted, with a ResourceWarning. A process can have 16. All
    functions may be called by any thread. They raise KernelError.
    """

    def __init__(self, *, vcpus: int = 0, memory: int = 0, command_line: str | None = None,
                 log_level: int = LOG_DEFAULT, components: Iterable[str] = (),
                 snapshots: str | os.PathLike[str] | None = None,
                 kernel: str | os.PathLike[str] | None = None, contain_panic: bool = False,
                 spare_interfaces: int = 0, shared_memory: bool = False):
        """Boots the kernel.

        vcpus: virtual CPUs, 0: as many as the host has. memory: the most bytes that it may use, 0:
        a quarter of the host's, or half of what limits of cgroups leave. log_level: lines of this
        level and below go to standard error. components: names of those to load, also in one string
        with blanks. snapshots: a directory. kernel: the file of another kernel image.
        contain_panic: a panic ends this kernel, not the process. spare_interfaces: so many
        interfaces for hubs, at most 32, are in a snapshot in advance. shared_memory: other
        processes may map the kernel's memory, as interfaces of the kind vhost-user need it; such a
        kernel uses no snapshot. <outboard/outboard.h> has more about each.
        """
        self._library = _library.load()
        names = components if isinstance(components, str) else " ".join(components)
        config = _library.Config(
            size=ctypes.sizeof(_library.Config), vcpus=_whole("vcpus", vcpus),
            memory=_whole("memory", memory),
            command_line=_bytes(command_line), log_level=log_level,
            components=_bytes(names or None), snapshots=_bytes(snapshots), kernel=_bytes(kernel),
            flags=SHARED_MEMORY * bool(shared_memory) | CONTAIN_PANIC * bool(contain_panic),
            spare_interfaces=_whole("spare_interfaces", spare_interfaces))
        handle = ctypes.c_void_p()
        self._check(self._library.ob_instance_new(ctypes.byref(handle)), TOO_MANY)
        self._handle: ctypes.c_void_p | None = handle
        result = self._library.ob_boot_on(handle, ctypes.byref(config))
        if result < 0:
            reason = self._library.ob_boot_error_on(handle) or self._library.ob_component_error()
            self._handle = None
            self._library.ob_instance_free(handle)
            raise _error(result, reason)
        self._finalizer = weakref.finalize(self, _halt_forgotten, self._library, handle)
        # At the end of the process it ends as after a power cut.
        self._finalizer.atexit = False
        with _lock:
            _running.append(weakref.ref(self))

    @staticmethod
    def _check(result: int, reason: bytes | None) -> int:
        if result < 0:
            raise _error(result, reason)
        return result

    @property
    def handle(self) -> ctypes.c_void_p:
        """The struct ob_instance."""
        if self._handle is None:
            raise KernelError(errno.ENODEV, "the kernel has halted")
        return self._handle

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handle is not None:
            self.halt()

    def halt(self) -> None:
        """Stops the kernel. Calls of other threads fail with ENODEV, now and later.

        After EIO and EBUSY (a file system could not be unmounted) the kernel has halted all the
        same; after EDEADLK, EAGAIN and ENOMEM it runs on.
        """
        handle = self.handle
        result = self._library.ob_halt_on(handle)
        if result in (-errno.EDEADLK, -errno.EAGAIN, -errno.ENOMEM):
            raise _error(result, None)
        with _lock:
            self._handle = None
            self._finalizer.detach()
            _forget(self)
        # -EBUSY: threads have not left it. Then the instance stays.
        self._library.ob_instance_free(handle)
        self._check(result, None)

    def _drop(self) -> None:
        self._finalizer.detach()
        handle, self._handle = self._handle, None
        self._library.ob_instance_free(handle)

    def net_add(self, description: str) -> Interface:
        """Adds a network interface, as "user,dhcp" or "tap:tap0,ip=10.0.0.2/24". docs/net.md has
        the words. Blocks while it waits for a lease: a signal does not end that.
        """
        name = ctypes.create_string_buffer(NAME_BYTES)
        number = self._check_net(
            self._library.ob_net_add_on(self.handle, _bytes(description), name))
        return Interface(self, number, os.fsdecode(name.value))

    def net_configure(self, name: str, changes: str) -> None:
        """Changes any interface, as "lo" or one that the program made by netlink."""
        self._check_net(
            self._library.ob_net_configure_on(self.handle, _bytes(name), _bytes(changes)))

    def _check_net(self, result: int) -> int:
        return self._check(result, self._library.ob_net_error() if result < 0 else None)

    def syscall(self, number: int, *arguments: int) -> int:
        """A system call of Linux for x86-64, with up to six numbers: pointers are addresses.
        Returns -errno for an error, also -ENODEV after a halt.
        """
        handle = self._handle
        if handle is None:
            return -errno.ENODEV
        padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
        return int(self._library.ob_syscall_on(handle, number, *padded))


def default_kernel() -> Kernel:
    """The kernel that has run longest: what outboard.net uses if no kernel is named."""
    with _lock:
        found = next((kernel for known in _running if (kernel := known()) is not None), None)
        if found is None:
            raise KernelError(errno.ENODEV, "no kernel runs: make an outboard.Kernel first")
        return found


def _drop_kernels() -> None:
    """In a child of fork(), where the parent's kernels do not run."""
    global _lock  # pylint: disable=global-statement
    _lock = threading.Lock()
    for known in _running:
        kernel = known()
        if kernel is not None:
            kernel._drop()  # pylint: disable=protected-access
    _running.clear()


os.register_at_fork(after_in_child=_drop_kernels)
