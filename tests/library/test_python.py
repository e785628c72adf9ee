# SPDX-License-Identifier: GPL-2.0-only
"""The Python package outboard: sockets beside Python's own, HTTP, types, the installed package."""

import contextlib
import http.server
import os
import signal
import sys
import threading

import pytest

from support import host
from support.program import OUT, REPOSITORY

PACKAGE = os.path.join(REPOSITORY, "python")
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(OUT, "lib", "liboutboard.so.0")
EXAMPLE = os.path.join(REPOSITORY, "docs", "examples", "http_client.py")


def python(*arguments, timeout=600, ok=(0,), **variables):
    """A program that knows the package, and where a warning is an error."""
    return host.run(sys.executable, "-W", "error", *arguments, timeout=timeout, ok=ok,
                    **{"PYTHONPATH": PACKAGE, "OUTBOARD_LIBRARY": LIBRARY, **variables})


@pytest.mark.parametrize("case", ["streams", "files", "stream_results", "datagrams", "errors",
                                  "infos", "own_errors", "signals", "kernels", "most", "forgotten",
                                  "options", "shared_memory", "spare", "fork", "threads"])
def test_sockets(case):
    python(os.path.join(HERE, "python_sockets.py"), case)


@contextlib.contextmanager
def web_server(directory):
    """A server of the host. Yields its port on loopback."""
    def handler(*arguments):
        return http.server.SimpleHTTPRequestHandler(*arguments, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_urllib(work):
    """The example of the documentation: urllib, through the kernel and libslirp or passt."""
    with open(os.path.join(work, "page"), "w", encoding="ascii") as page:
        page.write("a page\n" * 1000)
    with web_server(work) as port:
        # The host's loopback, as the kernel sees it.
        done = python(EXAMPLE, f"http://10.0.2.2:{port}/page")
    assert done.stdout == "a page\n" * 1000


FAULTS = """
import ctypes
import errno
import faulthandler
faulthandler.enable()
import outboard
MEMFD_CREATE, MMAP = 319, 9
with outboard.Kernel(memory=256 << 20) as kernel:
    assert kernel.syscall(MEMFD_CREATE, 8, 0) == -errno.EFAULT
    page = kernel.syscall(MMAP, 0, 4096, 3, 0x22, -1, 0)
    ctypes.memset(page, 7, 4096)
    print("still here", flush=True)
    ctypes.string_at(8)
"""


def test_faulthandler_before_the_first_kernel():
    """The kernel's own faults do no harm; others come to Python's handler."""
    done = python("-c", FAULTS, ok=(-signal.SIGSEGV,))
    assert done.stdout == "still here\n"
    assert "Fatal Python error: Segmentation fault" in done.stderr


@pytest.mark.needs("mypy")
def test_types():
    host.run("mypy", "--strict", "--cache-dir=/dev/null", os.path.join(PACKAGE, "outboard"),
             EXAMPLE, MYPYPATH=PACKAGE)


def test_no_library():
    done = host.run(sys.executable, "-c", "import outboard; outboard.Kernel()", ok=(1,),
                    PYTHONPATH=PACKAGE, OUTBOARD_LIBRARY="/nowhere/liboutboard.so")
    assert ("ImportError: cannot load /nowhere/liboutboard.so: " in done.stderr
            and "set OUTBOARD_LIBRARY to its path" in done.stderr)
