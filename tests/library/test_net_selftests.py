# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own programs of tools/testing/selftests/net, unmodified, as clients of a kernel in their
process: outboard/sockets.h is all that their compiler gets.

Left out, as the header redirects calls on sockets only: programs that map a packet socket
(psock_*), read or write /proc/sys, change the namespace or the processor of a task, load BPF by
bpf(2), or run ip(8). That would change the host.
"""

import os

import pytest

from library.test_capi import LIBRARIES, OUT, pkg_config, run

SOURCES = os.path.join(OUT, "source", "linux", "tools", "testing", "selftests", "net")
# Sources, arguments, and what the program must print. It ends with 0, too.
PROGRAMS = {
    "descriptors": ("socket", "", ""),
    "datagrams-peeked": ("sk_so_peek_off", "", "UDP/IPv6 with MSG_PEEK_OFF works correctly"),
    "fast-open": ("tcp_fastopen_backup_key", "", "PASS"),
    "flow-label": ("ipv6_flowlabel", "-l 1", "recv with label 1"),
    "fragments": ("ip_defrag", "-4", "PASS"),
    "fragments-overlap": ("ip_defrag", "-4o", "PASS"),
    "fragments6": ("ip_defrag", "-6", "PASS"),
    "netlink-dumps": ("netlink-dumps", "", "PASSED: 3 / 3"),
    "port-any-address": ("reuseport_addr_any", "", "SUCCESS"),
    "port-both-families": ("reuseport_dualstack", "", "SUCCESS"),
    "port-conflict": ("reuseaddr_conflict", "", "Success"),
    "port-listen": ("sk_bind_sendto_listen", "", ""),
    "port-timewait": ("bind_timewait", "", "PASSED: 2 / 2"),
    "port-wildcard": ("bind_wildcard", "", "PASSED: 132 / 132"),
    "queue-length": ("tcp_inq", "", "PASSED"),
    # A minute between two stamps is right, too: the usual 500 us are not for a busy machine.
    "timestamps": ("txtimestamp", "-4 -L 127.0.0.1 -C -t 60000000", "USR-ACK"),
    "zero-address": ("sk_connect_zero_addr", "", ""),
}


SLOW = ("port-wildcard", "fragments-overlap")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in PROGRAMS])
def test_selftest(work, name):
    source, arguments, expected = PROGRAMS[name]
    program = os.path.join(work, source)
    run("gcc", "-w", "-O1", "-D_GNU_SOURCE=", "-include", "outboard/sockets.h", "-o", program,
        os.path.join(SOURCES, f"{source}.c"), *pkg_config("--cflags", "--libs"), "-pthread")
    assert "ob_local_socket" in run("nm", "-u", program)
    # Some print to standard error.
    output = run("sh", "-c", f'"$0" {arguments} 2>&1', program, LD_LIBRARY_PATH=LIBRARIES)
    assert expected in output
