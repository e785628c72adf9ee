/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A disk as bad as disks are: slow, and with a write cache that loses its data in a power cut.
 *
 * A program that is linked with model_disk.c has its host calls on disks replaced: preadv2,
 * pwritev2, fdatasync and fallocate. The POSIX platform makes them by syscall(2), which
 * model_disk.c defines.
 *
 *  - Slow: what may block takes at least `model_disk_delay` microseconds, and until
 *    `model_disk_wait` returns; nothing is in the host's memory already.
 *  - Volatile: a write reaches the image at once, but the file `model_disk_stable` gets it only
 *    when a flush comes that began after the write was complete. So the stable file is what a power
 *    cut leaves.
 */
#ifndef OUTBOARD_TESTS_MODEL_DISK_H
#define OUTBOARD_TESTS_MODEL_DISK_H

/* Set before the disk is added. */
extern unsigned int model_disk_delay;
extern void (*model_disk_wait)(void);	/* NULL: nothing more to wait for */
extern const char *model_disk_stable;	/* a copy of the image; NULL: none is kept */

/* Slow operations that have ever begun. Atomic. */
extern long model_disk_begun;

#endif
