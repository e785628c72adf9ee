# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's log."""

from outboard_gdb.instances import symbol
from outboard_gdb.memory import Problem, Record, kernel_type, printable, read_bytes, read_word


def log_text(ring: Record, begin: int, following: int, length: int) -> str:
    size = 1 << ring.number("size_bits")
    if begin & 1:
        return "" if begin == following == 3 else "<lost>"
    if begin // size == following // size:
        start, room = begin % size, following - begin
    else:
        start, room = 0, following % size
    length = min(length, max(room - 8, 0))
    return printable(read_bytes(ring.number("data") + start
                                + 8, length, "the text of a log line")) if length else ""


def log_lines():
    """(time in nanoseconds, text) of each record of the printk ring buffer."""
    buffer = Record("struct printk_ringbuffer", read_word(symbol("prb"), "prb"))
    descriptors = Record("struct prb_desc_ring", buffer.value("desc_ring").address)
    texts = Record("struct prb_data_ring", buffer.value("text_data_ring").address)
    bits = descriptors.number("count_bits")
    if not 0 < bits < 24 or not 0 < texts.number("size_bits") < 32:
        raise Problem("the kernel's log is damaged: its sizes make no sense")
    count, id_mask = 1 << bits, (1 << 62) - 1
    number = descriptors.number("tail_id.counter") & id_mask
    head = descriptors.number("head_id.counter") & id_mask
    for _ in range(count):
        index = number & count - 1
        descriptor = Record(
            "struct prb_desc",
            descriptors.number("descs") + index * kernel_type("struct prb_desc").sizeof)
        state = descriptor.number("state_var.counter") & (1 << 64) - 1
        # Committed or final: the others are being written, or free.
        if state & id_mask == number and state >> 62 in (1, 2):
            info = Record(
                "struct printk_info",
                descriptors.number("infos") + index * kernel_type("struct printk_info").sizeof)
            yield info.number("ts_nsec"), log_text(texts, descriptor.number("text_blk_lpos.begin"),
                                                   descriptor.number("text_blk_lpos.next"),
                                                   info.number("text_len"))
        if number == head:
            return
        number = number + 1 & id_mask
