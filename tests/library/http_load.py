#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Many HTTP connections that are open at once: http_load.py ADDRESS PORT COUNT REQUESTS DIRECTORY

Opens COUNT connections, and only then sends REQUESTS requests on each, one after the other. The
files are those of DIRECTORY; each answer must have the contents of its file. A single request per
connection asks the server to close it. Prints how many answers were right.
"""

import asyncio
import os
import resource
import sys

# Descriptors besides those of the connections.
OTHERS = 100
# So many connect at a time: a server's queue of new connections is limited, and a client whose
# packet finds the queue full waits for seconds before it sends the packet again.
CONNECTING = 1000


class Load:
    def __init__(self, address: str, port: int, count: int, requests: int, directory: str):
        self.address, self.port, self.count, self.requests = address, port, count, requests
        self.files = {}
        for name in sorted(os.listdir(directory)):
            with open(os.path.join(directory, name), "rb") as stream:
                self.files[name] = stream.read()
        self.names = list(self.files)
        self.opened = 0
        self.answers = 0
        self.all_open = asyncio.Event()
        self.connecting = asyncio.Semaphore(CONNECTING)

    async def ask(self, reader, writer, name: str) -> None:
        """One request. Reads its whole answer."""
        last = "close" if self.requests == 1 else "keep-alive"
        writer.write(f"GET /{name} HTTP/1.1\r\nHost: {self.address}\r\n"
                     f"Connection: {last}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        if self.requests == 1:
            body = await reader.read(-1)
        else:
            length = next(line for line in head.lower().split(b"\r\n")
                          if line.startswith(b"content-length:"))
            body = await reader.readexactly(int(length.split(b":")[1]))
        assert body == self.files[name], f"{name}: {len(body)} bytes are not those of the file"
        self.answers += 1

    async def connection(self, number: int) -> None:
        async with self.connecting:
            reader, writer = await asyncio.open_connection(self.address, self.port)
        self.opened += 1
        if self.opened == self.count:
            self.all_open.set()
        await self.all_open.wait()
        for request in range(self.requests):
            await self.ask(reader, writer, self.names[(number + request) % len(self.names)])
        writer.close()

    async def run(self) -> None:
        await asyncio.gather(*map(self.connection, range(self.count)))


async def main() -> None:
    address, port, count, requests, directory = sys.argv[1:]
    most = int(count) + OTHERS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(hard, most)))
    load = Load(address, int(port), int(count), int(requests), directory)
    await load.run()
    print(load.answers)


if __name__ == "__main__":
    asyncio.run(main())
