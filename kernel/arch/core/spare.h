/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's devices for the spare interfaces of a snapshot (drivers/virtio_spare.c). The host
 * takes memory and locks of the program for them, so no vCPU is held: the booting thread opens them
 * before a vCPU is up, and closes them when the kernel is saved or does not start.
 */
#ifndef OUTBOARD_CORE_SPARE_H
#define OUTBOARD_CORE_SPARE_H

#include <linux/types.h>

#define OB_SPARES_MOST 32U

struct ob_spares {
	u32 numbers[OB_SPARES_MOST];
	unsigned int count;
	int error;			/* why there are no more */
};
extern struct ob_spares ob_spares;

/* By the booting thread. Both block. */
void ob_spares_open(unsigned int count);
void ob_spares_close(void);

#endif
