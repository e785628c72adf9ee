/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel offers to lib/: boot, the system call gate, halt, disks.
 * Only lib/ includes this; programs use outboard/outboard.h.
 *
 * Errors are negative Linux errno values.
 */
#ifndef OUTBOARD_GATE_H
#define OUTBOARD_GATE_H

#include <outboard/hypercall.h>

struct ob_boot_parameters {
	uint32_t vcpus;			/* 1 to 64; a kernel that can have fewer takes what it can have */
	uint32_t log_level;		/* lines of this level and below reach the console: 0 to 8 */
	uint64_t memory;		/* ceiling in bytes */
	const char *command_line;	/* added to the kernel's command line; may be NULL */
	const char *components;		/* names or aliases, loaded before this returns; separated by spaces; may be NULL */
	uint32_t snapshot;		/* start from the platform's snapshot, or else leave one there */
	uint32_t boot;			/* counts the boots of the process: no two kernels have the same; the lower 16 bits are not 0 */
};

/*
 * Boots the kernel. Returns when the first system call can be made. -EALREADY if this
 * image has booted before and its data were not made new since (tables.h), -EINVAL for bad parameters, -ENOMEM. When a component cannot be loaded,
 * the kernel runs, and the error is that of loading. Blocks.
 */
int ob_kernel_boot(const struct ob_boot_parameters *parameters);

/*
 * One system call with Linux's x86-64 numbers and conventions. A thread that
 * never called before is adopted. -ENODEV before boot, after halt and in a forked child.
 */
long ob_kernel_syscall(long number, long a, long b, long c, long d, long e, long f);

/*
 * The present call of that client thread (Linux's number for it; 0: the calling one), or its next one that
 * would block, fails with EINTR. -ESRCH: 0 on a thread that never called; no other thread that does not exist is an
 * error. -EAGAIN: too many at once. -ENODEV. Does not block, takes no vCPU: for signal handlers too.
 */
int ob_kernel_interrupt_call(int thread);

/*
 * Closes the files of the clients, unmounts, writes back, stops every vCPU and ends every thread of
 * the kernel. Calls of other threads, also those that are blocked, end with -ENODEV. Returns 0,
 * -EBUSY if a file system could not be unmounted (it was then synced), -EIO if a write to a disk of
 * the block group has failed, -ENODEV if nothing runs. Failed writes to other disks, such as those
 * of PCI devices, are in the log only. `halted`: whether the kernel has ended; if not, it runs on
 * as if nothing had been asked, and the result says why. Blocks.
 */
int ob_kernel_halt(int *halted);

/*
 * After the halt, when no signal handler of the platform looks at the kernel's memory any more: gives
 * it back. -EBUSY: threads are still in calls, so it must stay, and the image's data with it.
 */
int ob_kernel_free(void);

struct ob_disk_parameters {
	const char *path;
	uint32_t flags;			/* enum ob_block_flags */
	uint32_t sector_size;		/* 0: the host's; else 512 or 4096 */
};

/*
 * Opens a disk of the host and adds it as a block device; the kernel scans its
 * partitions before this returns. Stores the device's name ("vda"). Returns the disk's number or an
 * error of ob_host_block_open. Blocks.
 */
int ob_kernel_disk_add(const struct ob_disk_parameters *parameters, char name[32]);

/*
 * Loads the component of that name or alias, and what it needs. What is loaded already is no
 * error. `parameters`: as for Linux's init_module. -ENOENT: the host has none of that name; -ENOSYS: this
 * kernel loads nothing; else what Linux says. Blocks.
 */
int ob_kernel_component_load(const char *name, const char *parameters);

/* Loads a module from memory. -EEXIST if one of its name is loaded. Blocks. */
int ob_kernel_component_insert(const void *image, uint64_t size, const char *parameters);

/* Linux's version magic: a module must have the same. "" if this kernel loads nothing. */
extern const char ob_kernel_version_magic[];

struct ob_component_state {
	char name[64];
	uint64_t memory;		/* bytes that it takes in the kernel */
	uint32_t users;			/* references, as lsmod shows them */
	uint32_t reserved;
};

/* The loaded components, the newest first: `index` 0, 1, ... until -ENOENT. Blocks. */
int ob_kernel_component_state(uint32_t index, struct ob_component_state *state);

/* Removes a disk: -EBUSY while it or a partition is open or mounted, -ENOENT. Blocks. */
int ob_kernel_disk_remove(uint32_t disk);

#endif
