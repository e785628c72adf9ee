/* SPDX-License-Identifier: GPL-2.0-only */
/* What booting and halting need of virtio devices. */
#ifndef OUTBOARD_DRIVERS_VIRTIO_H
#define OUTBOARD_DRIVERS_VIRTIO_H

/* Closes the host's side of all devices. Only after every vCPU has stopped. */
void ob_virtio_close_all(void);

#ifdef CONFIG_NET
/*
 * The interfaces of a snapshot: makes them, by the leader before it prepares the kernel; then parks
 * them, by the booting thread with the kernel at rest (virtio_spare.c).
 */
void ob_virtio_spares_make(unsigned int count);
void ob_virtio_spares_park(void);
#else
static inline void ob_virtio_spares_make(unsigned int count) { }
static inline void ob_virtio_spares_park(void) { }
#endif

#endif
