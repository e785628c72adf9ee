# SPDX-License-Identifier: GPL-2.0-only
"""A client that says anything: hostile_client PATH SECONDS SEED. It writes all of its slot while
the server reads it, by two mappings; makes holes in the memory; asks for threads, copies and
programs for which nobody comes; and breaks its connection. Ends with 0.
"""

import contextlib
import os
import random
import sys
import time

from support import remote_client
from support.remote_client import Ended, Refused, RemoteClient, Slot

PUNCH_HOLE = 3  # and keep the size
VALUES = (0, 1, 7, 64, 2**32 - 1, 2**63, 2**64 - 1, 4090, 262143)
# Calls that read and write memory, and none that sleep long: of files, polls, sockets, messages,
# names, attributes, capabilities, semaphores.
CALLS = (0, 1, 2, 4, 7, 16, 20, 21, 22, 41, 45, 46, 47, 51, 53, 54, 55, 72, 79, 83, 89, 97, 125,
         126, 157, 191, 217, 220, 257, 262, 269, 271, 290, 302, 319, 332, 437)
WRITES = 200
# The server keeps a copy for which nobody comes for so long: a shorter attack makes none.
ATTACH = 10
OPERATIONS = (remote_client.FORK, remote_client.EXEC)


def scribble(slot: Slot, source: random.Random, others: tuple[int, ...]) -> None:
    """Writes into the header or the data, as no honest client does. Not so that a call becomes one
    of the other operations by chance, unless there shall be some.
    """
    for _ in range(WRITES):
        place = source.randrange(0, 512 if source.random() < 0.3 else remote_client.DATA + 8192)
        value = source.choice(VALUES) if source.random() < 0.7 else source.getrandbits(64)
        if others or place & ~7 != remote_client.OPERATION:
            slot.set_number(place & ~7, value)


def ask(slot: Slot, source: random.Random, others: tuple[int, ...]) -> None:
    """`others`: operations besides calls."""
    operation = source.choice((remote_client.CALL,) * 40 + (9, source.getrandbits(32), *others))
    slot.set_word(remote_client.OPERATION, operation)
    slot.set_number(remote_client.NUMBER, source.choice(CALLS))
    for index in range(6):
        value = source.choice((0, 1, 3, 64, 4096, slot.size - 8, slot.size, source.getrandbits(64)))
        slot.set_number(remote_client.ARGUMENTS + 8 * index, value)
    slot.set_word(remote_client.REQUEST, source.getrandbits(32))
    slot.futex(remote_client.REQUEST, remote_client.FUTEX_WAKE, 1)


def change_memory(client: RemoteClient, source: random.Random) -> None:
    """Holes come back as zeros; the size stays."""
    begin = source.randrange(0, client.size) & ~4095
    remote_client.LIBC.fallocate(client.file, PUNCH_HOLE, remote_client.off(begin),
                                 remote_client.off(source.choice((4096, 65536, client.size))))
    with contextlib.suppress(OSError):
        os.ftruncate(client.file, source.choice((0, 4096, 1 << 30)))


def write_notes(client: RemoteClient, source: random.Random) -> None:
    note = source.choice(("Thread", {"Interrupt": {"thread": client.thread,
                                                   "request": source.getrandbits(32)}},
                          {"Cancel": {"ticket": source.randbytes(16).hex()}}, {"None": 1}))
    client.send(note)


def attack(path: str, source: random.Random, others: tuple[int, ...]) -> None:
    """One connection, until it breaks."""
    with RemoteClient(path) as client:
        slots = (client.slot, Slot(client.file, client.size))
        for _ in range(source.randrange(1, 300)):
            scribble(source.choice(slots), source, others)
            ask(source.choice(slots), source, others)
            if source.random() < 0.2:
                change_memory(client, source)
            if source.random() < 0.05:
                write_notes(client, source)


def main(path: str, seconds: str, seed: str) -> None:
    source, end = random.Random(int(seed)), time.monotonic() + float(seconds)
    others = OPERATIONS if float(seconds) > ATTACH else ()
    while time.monotonic() < end:
        with contextlib.suppress(Ended, Refused, ConnectionError):
            attack(path, source, others)


if __name__ == "__main__":
    main(*sys.argv[1:])
