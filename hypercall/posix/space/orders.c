// SPDX-License-Identifier: GPL-2.0-only
/* See orders.h. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "orders.h"

uint32_t ob_order_map(char *door, uint32_t offset, uint32_t otherwise, uint64_t address,
		      uint64_t size, int protection, int flags, int descriptor,
		      uint64_t file_offset)
{
	struct ob_order *order = ob_order_at(door, offset);

	ob_order(door, offset, otherwise, SYS_mmap, address, size, (uint64_t)protection,
		 (uint64_t)(MAP_SHARED | MAP_FIXED | MAP_NORESERVE | flags));
	order->arguments[4] = (uint64_t)descriptor;
	order->arguments[5] = file_offset;
	return offset + ORDER_BYTES;
}

/* Copies the number of the request to a word of the door. */
static uint32_t report(char *door, uint32_t offset, uint64_t address, uint64_t file_offset,
		       uint32_t word)
{
	return ob_order(door, offset, offset + ORDER_BYTES, SYS_pwrite64, FD_CONTROL,
			address + DOOR_REQUEST, sizeof(uint32_t), file_offset + word);
}

void ob_orders_tails(char *door, uint64_t address, uint64_t file_offset)
{
	uint32_t offset = report(door, LIST_DONE, address, file_offset, DOOR_DONE);

	offset = ob_order(door, offset, offset + ORDER_BYTES, SYS_futex, address + DOOR_DONE,
			  FUTEX_WAKE, INT_MAX, 0);
	ob_order_special(door, offset, ORDER_WAIT, 0);
	offset = report(door, LIST_FAILED, address, file_offset, DOOR_FAILED);
	ob_order_special(door, offset, ORDER_GO, LIST_DONE);
	ob_order(door, LIST_EXIT, LIST_EXIT, SYS_exit_group, 1, 0, 0, 0);
}
