/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Drivers take part in halt, snapshots and waits of the whole machine. Core knows no driver: each
 * driver registers its functions while the kernel boots. Any of the functions may be NULL.
 *
 *   function      when                                      by
 *   make_spares   a snapshot is to be taken, before         the leader; blocks
 *                 memory is made ready for it
 *   park          the kernel is at rest and is saved next   the booting thread
 *   poll          a client's thread is about to wait        that thread
 *   stop          halt: everything is unmounted             the halting thread's call; takes no
 *                                                           lock that sleeps
 *   close         halt: every vCPU has stopped              the halting thread
 */
#ifndef OUTBOARD_CORE_DRIVER_H
#define OUTBOARD_CORE_DRIVER_H

#include <linux/init.h>
#include <linux/types.h>

struct ob_driver {
	/* Linux's own shutdown of devices has to run before `stop`. */
	bool has_hardware;

	/* Makes the interfaces that the saved kernel is to have in advance. */
	void (*make_spares)(void);
	/* Gives the host its things back: the saved kernel has none of them. */
	void (*park)(void);
	/*
	 * An answer may come through a device of the host, whose thread need not wake if this one
	 * serves the device: until the word has one of the bits, or until the time `end`. 0: only
	 * tells the device's thread to look from now on. Returns whether the word has one of the
	 * bits; -EAGAIN: an answer may come, and nothing is to be served; -ENODEV: no answer will
	 * come through this driver.
	 */
	int (*poll)(const u32 *word, u32 bits, u64 end);
	/*
	 * Ends all access of devices to RAM, and masks their interrupts. Linux's drivers cannot
	 * undo that. -EIO: a write failed since boot.
	 */
	int (*stop)(void);
	/* Closes the host's side of all devices. */
	void (*close)(void);

	struct ob_driver *next;
};

/* At boot, before the first client. The struct stays. */
void __init ob_driver_register(struct ob_driver *driver);

/* Has each driver do that. `stop` and `poll` return the first result that is of use. */
bool ob_drivers_have_hardware(void);
void ob_drivers_make_spares(void);
void ob_drivers_park(void);
int ob_drivers_poll(const u32 *word, u32 bits, u64 end);
int ob_drivers_stop(void);
void ob_drivers_close(void);

#endif
