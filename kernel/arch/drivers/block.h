/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the block driver. */
#ifndef OUTBOARD_DRIVERS_BLOCK_H
#define OUTBOARD_DRIVERS_BLOCK_H

#ifdef CONFIG_BLOCK
/* Writes and flushes that failed since boot. */
unsigned long ob_block_write_errors(void);

/* Closes the host's side of all disks. Only after every vCPU has stopped. */
void ob_block_close_all(void);
#else
static inline unsigned long ob_block_write_errors(void)
{
	return 0;
}

static inline void ob_block_close_all(void)
{
}
#endif
#endif
