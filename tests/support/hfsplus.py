# SPDX-License-Identifier: GPL-2.0-only
"""Makes an empty HFS+ volume: no tool in Debian 12 does.

Written from Apple's Technical Note TN1150. Layout, in blocks of 4096 bytes: 0 holds the boot blocks
and the volume header, then come the allocation file (a bitmap), the extents-overflow tree, the
catalog tree; the last block holds the copy of the header. Numbers are big-endian.
"""

import struct

BLOCK = 4096
NODE = 4096
TREE_BLOCKS = 512  # for each of the two trees
ROOT_FOLDER, ROOT_PARENT, FIRST_FREE_ID = 2, 1, 16
DATE = 3_600_000_000  # seconds since 1904: in 2018
LEAF, HEADER = 0xFF, 1
BIG_KEYS, VARIABLE_INDEX_KEYS = 2, 4


def fork(start: int, blocks: int, size: int) -> bytes:
    return struct.pack(">QII", size, BLOCK, blocks) + struct.pack(">II", start, blocks) + bytes(56)


def node(kind: int, height: int, records: list) -> bytes:
    """A node of a tree: descriptor, records, and from its end backwards where each record starts.
    """
    content = struct.pack(">IIBBHH", 0, 0, kind, height, len(records), 0)
    offsets = []
    for record in records:
        offsets.append(len(content))
        content += record
    offsets.append(len(content))
    table = b"".join(struct.pack(">H", offset) for offset in reversed(offsets))
    return content + bytes(NODE - len(content) - len(table)) + table


def tree(leaf_records: list, longest_key: int, attributes: int) -> bytes:
    """A tree of a header node and at most one leaf."""
    leaves = 1 if leaf_records else 0
    total = TREE_BLOCKS * BLOCK // NODE
    header = struct.pack(">HIIIIHHIIHIBBI", leaves, leaves, len(leaf_records), leaves, leaves, NODE,
                         longest_key, total, total - 1 - leaves, 0, BLOCK, 0, 0,
                         attributes) + bytes(64)
    used = bytes([0xC0 if leaves else 0x80])
    map_size = NODE - 14 - len(header) - 128 - 8
    nodes = node(HEADER, 0, [header, bytes(128), used + bytes(map_size - 1)])
    if leaves:
        nodes += node(LEAF, 1, leaf_records)
    return nodes


def name(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("utf-16-be")


def key(parent: int, text: str) -> bytes:
    content = struct.pack(">I", parent) + name(text)
    return struct.pack(">H", len(content)) + content


def catalog(label: str) -> bytes:
    """The root folder and its thread."""
    owner = struct.pack(">IIBBHI", 0, 0, 0, 0, 0o40755, 0)
    folder = struct.pack(">HHII5I", 1, 0, 0, ROOT_FOLDER, DATE, DATE, DATE, DATE,
                         0) + owner + bytes(40)
    thread = struct.pack(">HHI", 3, 0, ROOT_PARENT) + name(label)
    records = [key(ROOT_PARENT, label) + folder, key(ROOT_FOLDER, "") + thread]
    return tree(records, 516, BIG_KEYS | VARIABLE_INDEX_KEYS)


def bitmap(blocks: int, used: int) -> bytes:
    """The first `used` blocks and the last one are taken."""
    bits = bytearray((blocks + 7) // 8)
    for block in [*range(used), blocks - 1]:
        bits[block // 8] |= 0x80 >> block % 8
    return bytes(bits)


def make(path: str, megabytes: int, label: str = "Outboard") -> None:
    """An empty volume in a sparse file."""
    blocks = megabytes * (1 << 20) // BLOCK
    bitmap_blocks = -(-blocks // (8 * BLOCK))
    extents_start = 1 + bitmap_blocks
    catalog_start = extents_start + TREE_BLOCKS
    used = catalog_start + TREE_BLOCKS
    header = struct.pack(">HHI4sI4I", 0x482B, 4, 0x100, b"10.0", 0, DATE, DATE, 0, DATE)
    header += struct.pack(">9IIQ", 0, 0, BLOCK, blocks, blocks - used - 1, used, BLOCK, BLOCK,
                          FIRST_FREE_ID, 0, 1) + bytes(32)
    header += fork(1, bitmap_blocks, bitmap_blocks * BLOCK)
    header += fork(extents_start, TREE_BLOCKS, TREE_BLOCKS * BLOCK)
    header += fork(catalog_start, TREE_BLOCKS, TREE_BLOCKS * BLOCK)
    header += bytes(160)  # no attributes file, no startup file
    with open(path, "wb") as stream:
        stream.truncate(blocks * BLOCK)
        for offset, content in ((1024, header), (BLOCK, bitmap(blocks,
                                                               used)), (extents_start * BLOCK,
                                                                        tree([], 10, BIG_KEYS)),
                                (catalog_start * BLOCK, catalog(label)), (blocks * BLOCK - 1024,
                                                                          header)):
            stream.seek(offset)
            stream.write(content)
