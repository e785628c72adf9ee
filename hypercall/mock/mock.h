/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The smallest platform: what docs/porting.md explains, and tests boot a kernel with.
 *
 * One host thread runs everything. The kernel's threads, its clients and its timer are coroutines
 * of this platform, which change at hypercalls only (threads.c). It needs of its host memory, a
 * clock, random numbers and a place for messages. It has no mapping group, no signals, no
 * components and no snapshots. Its only disk is memory. A test can bring a PCI device (device.c).
 *
 * A test that links this platform calls the functions below, and the upcalls of the kernel.
 */
#ifndef OUTBOARD_MOCK_H
#define OUTBOARD_MOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <outboard/tables.h>

/*
 * A PCI device of a test. Functions get its state. Addresses are those of the bus, sizes are in
 * bytes.
 */
struct mock_device {
	void *state;
	/* Where this device memory is in the address space. NULL: `read` and `write` access it. */
	void *(*map)(void *state, uint64_t address, uint64_t size);	/* NULL: none of it */
	/* The kernel halts, and its vCPUs have stopped. RAM is still there. */
	void (*vcpus_stopped)(void *state);				/* NULL: not called */
	uint32_t (*config_read)(void *state, uint32_t offset, uint32_t size);
	void (*config_write)(void *state, uint32_t offset, uint32_t size, uint32_t value);
	uint64_t (*read)(void *state, uint64_t address, uint32_t size);
	void (*write)(void *state, uint64_t address, uint32_t size, uint64_t value);
};

/* Where the kernel may put the device's memory. */
#define MOCK_WINDOW_ADDRESS 0xc0000000ull
#define MOCK_WINDOW_SIZE (1ull << 20)

/*
 * Physical addresses where RAM's bus addresses have a gap: one in what a kernel boots with, one
 * above that.
 */
#define MOCK_BORDER_BOOT (8ull << 20)
#define MOCK_BORDER_LATE (40ull << 20)

struct mock_options {
	uint64_t memory;		/* ceiling in bytes */
	uint64_t memory_given;		/* bytes of RAM that the host gives before it refuses; 0: all */
	uint64_t disk_size;		/* bytes; 0: there is no block group */
	uint32_t vcpus;
	uint32_t log_level;		/* lines of this level and below go to standard error */
	bool pinned;			/* OB_HOST_RAM_IS_PINNED */
	bool executable;		/* OB_HOST_RAM_IS_EXECUTABLE */
	const struct mock_device *device;	/* NULL: the groups that drivers need are absent */
	bool no_dma;			/* the group dma is absent, even if there is a device */
	const struct ob_dma_extent *extents;	/* NULL: those of device.c */
	uint32_t extent_count;
	uint64_t table_size;		/* that the table of hypercalls states; 0: all of it */
};

/* What the kernel has asked for so far. */
struct mock_counts {
	uint64_t extended;		/* bytes of RAM */
	uint64_t discarded;		/* bytes of RAM */
	uint64_t longest_extension;	/* in bytes, but for the first */
	uint32_t services;		/* calls of ob_kernel_service() */
	uint32_t interrupts_open;	/* now */
	uint32_t interrupts_live;	/* now: open, and not masked */
	uint32_t device_maps;		/* now: mappings of device memory */
	uint32_t wrong_unmaps;		/* of what is no such mapping */
	uint32_t masked, unmasked;	/* calls */
	uint32_t affinity;		/* the last hint */
	uint32_t threads;		/* made for the kernel and by mock_client() */
};

/*
 * Loads the image in that file. A process can have MOCK_KERNELS at a time. NULL, and a message on
 * standard error: the file is no kernel image of this interface version, there are too many
 * kernels, or the host has no memory.
 */
#define MOCK_KERNELS 2
struct ob_host *mock_new(const char *image, const struct mock_options *options);

/* Boots. The calling thread is a client then. 0 or what ob_kernel_boot() says. */
int mock_boot(struct ob_host *host);

/* One system call of the calling client. */
long mock_call(struct ob_host *host, long number, long a, long b, long c, long d, long e);

/*
 * Starts another client: fn(arg) on a thread of this platform, which is adopted with its first
 * call. Returns its handle for ob_host_thread_join(), 0: none could be made.
 */
uint64_t mock_client(struct ob_host *host, void (*fn)(void *arg), void *arg);

/* Halts the kernel: 0 or what ob_kernel_halt() says. */
int mock_halt(struct ob_host *host);

/* Gives back what mock_new() took. The kernel has halted. */
void mock_free(struct ob_host *host);

/* The bytes of the disk, whose path is "ram". */
char *mock_disk(struct ob_host *host);

/* The device writes a message to the bus. */
void mock_message(struct ob_host *host, uint64_t address, uint32_t data);

/*
 * Where the device finds RAM that it reaches by a bus address. NULL: there is none, or not all of
 * it.
 */
void *mock_dma(struct ob_host *host, uint64_t bus, uint64_t size);

/* RAM by its physical address. */
void *mock_ram(struct ob_host *host, uint64_t physical);

const struct ob_upcalls *mock_upcalls(const struct ob_host *host);
const struct mock_counts *mock_counts(const struct ob_host *host);

#endif
