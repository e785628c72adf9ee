#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fetches a page through Linux's TCP/IP in this process, without root:

    http_client.py http://192.0.2.1/page [INTERFACE]

INTERFACE describes the way to the network, "user,dhcp" by default. The host of the URL is a numeric
address.
"""

import http.client
import sys
import urllib.request

import outboard
from outboard import net


class Connection(http.client.HTTPConnection):
    """A connection whose socket is the kernel's."""

    def connect(self) -> None:
        self.sock = net.create_connection((self.host, self.port), self.timeout)


class Handler(urllib.request.HTTPHandler):
    """http: of urllib by such connections."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(Connection, req)


def main() -> None:
    url, *interface = sys.argv[1:]
    # Without a handler for proxies: the environment's are the host's.
    opener = urllib.request.build_opener(Handler, urllib.request.ProxyHandler({}))
    with outboard.Kernel() as kernel:
        kernel.net_add(*interface or ["user,dhcp"])
        with opener.open(url, timeout=30) as page:
            sys.stdout.buffer.write(page.read())


if __name__ == "__main__":
    main()
