/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lists of orders for stub.S, which the platform writes to a door. Each door of the zygote or a
 * mapper has the same places:
 *
 *   DOOR_LIST          the orders of a request; ends with ORDER_GO to LIST_DONE
 *   LIST_DONE          reports that the request was carried out, and waits for the next one
 *   LIST_FAILED        reports a failure, then the same
 *   LIST_EXIT          ends the process
 *   LIST_CHILD         what a new process or thread begins with
 *   LIST_START         of a mapper: lets a user thread run, then LIST_DONE
 *   LIST_DROP          of a mapper: unmaps all that is shown, then LIST_START or LIST_DONE
 *   DOOR_DATA          structures that orders point to
 *   LIST_GATE          of the zygote: behind the orders for each vCPU (zygote.c)
 *   LIST_REQUEST       of the zygote: the orders of a request
 *
 * A mapper can write no memory that user code cannot. So it reports with pwrite() to the control
 * file, of which the door is a part.
 */
#ifndef OUTBOARD_POSIX_SPACE_ORDERS_H
#define OUTBOARD_POSIX_SPACE_ORDERS_H

#include <stdint.h>
#include <string.h>

#include "space.h"

struct ob_order {
	int64_t number;
	uint64_t arguments[6];
	uint32_t expected;	/* the result; 0: any but an error */
	uint32_t otherwise;	/* offset of the order that follows another result */
};

_Static_assert(sizeof(struct ob_order) == ORDER_BYTES, "as stub.S has it");
_Static_assert(offsetof(struct ob_order, arguments) == ORDER_ARGUMENTS, "as stub.S has it");
_Static_assert(offsetof(struct ob_order, expected) == ORDER_EXPECTED, "as stub.S has it");
_Static_assert(offsetof(struct ob_order, otherwise) == ORDER_OTHERWISE, "as stub.S has it");

#define DOOR_DATA 0x80
#define LIST_CHILD 0x400
#define LIST_START 0x440	/* a mapper's LIST_CHILD is one order */
#define LIST_DROP 0x500
#define LIST_DONE 0x600
#define LIST_FAILED 0x6c0
#define LIST_EXIT 0x780
#define LIST_GATE (DOOR_LIST + VCPUS_MOST * ORDER_BYTES)
#define LIST_REQUEST (LIST_GATE + ORDER_BYTES)

static inline struct ob_order *ob_order_at(char *door, uint32_t offset)
{
	return (struct ob_order *)(door + offset);
}

/* A system call; its further arguments are 0. Returns the offset behind it. */
static inline uint32_t ob_order(char *door, uint32_t offset, uint32_t otherwise, long number,
				uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	*ob_order_at(door, offset) = (struct ob_order){
		.number = number, .arguments = { a, b, c, d }, .otherwise = otherwise,
	};
	return offset + ORDER_BYTES;
}

static inline uint32_t ob_order_special(char *door, uint32_t offset, int number, uint64_t argument)
{
	return ob_order(door, offset, 0, number, argument, 0, 0, 0);
}

/* orders.c: mmap() with MAP_SHARED and MAP_FIXED. */
uint32_t ob_order_map(char *door, uint32_t offset, uint32_t otherwise, uint64_t address,
		      uint64_t size, int protection, int flags, int descriptor,
		      uint64_t file_offset);
/* The tails of a door that is at `address` in the stub, and at `file_offset` in the control file.
 */
void ob_orders_tails(char *door, uint64_t address, uint64_t file_offset);

#endif
