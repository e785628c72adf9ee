/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The smallest platform: the example of docs/porting.md, on which tests boot a kernel.
 *
 * One host thread runs everything. The kernel's threads, its clients and its timer are coroutines
 * of this platform. They switch at hypercalls only (threads.c). The platform needs memory, a clock,
 * random numbers and a place for messages. It has no signals, no components and no snapshots. Its
 * only disk is memory. A test can add a PCI device (device.c, interrupt.c), windows (mapping.c),
 * user code of programs (space.c), and mistakes.
 *
 * A test links this platform, and calls the functions below and the upcalls of the kernel.
 */
#ifndef OUTBOARD_MOCK_H
#define OUTBOARD_MOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <outboard/hypercall_spaces.h>
#include <outboard/tables.h>

/*
 * A PCI device of a test. Functions get its state. Addresses are those of the bus, sizes are in
 * bytes.
 */
struct mock_device {
	void *state;
	/*
	 * Returns where device memory is in the address space. NULL: it cannot be mapped, and the
	 * kernel uses `read` and `write`. May be NULL itself: then no memory can be mapped.
	 * `flags`: enum ob_iomem_flags.
	 */
	void *(*map)(void *state, uint64_t address, uint64_t size, uint32_t flags);
	/* All vCPUs have stopped, and RAM goes after this call. May be NULL. */
	void (*vcpus_stopped)(void *state);
	uint32_t (*config_read)(void *state, uint32_t offset, uint32_t size);
	void (*config_write)(void *state, uint32_t offset, uint32_t size, uint32_t value);
	uint64_t (*read)(void *state, uint64_t address, uint32_t size);
	void (*write)(void *state, uint64_t address, uint32_t size, uint64_t value);
	/* All ports of the host. NULL: the group of ports is absent. */
	uint32_t (*port_read)(void *state, uint32_t port, uint32_t size);
	void (*port_write)(void *state, uint32_t port, uint32_t size, uint32_t value);
	/*
	 * Returns the device that is this function of the bus. NULL: there is none. May be NULL
	 * itself: then this device is function 0, and there is no other.
	 */
	const struct mock_device *(*at)(void *state, uint32_t function);
	/* As ob_host_pci_pin(). May be NULL: then nobody routes pins. */
	int (*pin)(void *state, uint32_t function, uint32_t pin, uint32_t *routed,
		   uint32_t *flags);
};

/* Calls of the group spaces that may fail. */
enum mock_space_call { MOCK_SPACE_CREATE, MOCK_SPACE_MAP, MOCK_SPACE_PROTECT };

/* User code of all programs, as a script. Functions get its state. */
struct mock_program {
	void *state;
	/* As ob_host_space_enter(). The registers tell how far the program is. */
	void (*run)(void *state, uint64_t space, struct ob_space_registers *registers,
		    struct ob_space_event *event);
	/* Returns the error with which a call fails; 0: none. May be NULL. */
	int (*fail)(void *state, enum mock_space_call call);
};

/* Where addresses of programs end. */
#define MOCK_SPACE_END (1ull << 46)

#define MOCK_PINS 8

/* The addresses that the kernel may assign to the device's memory. */
#define MOCK_WINDOW_ADDRESS 0xc0000000ull
#define MOCK_WINDOW_SIZE (1ull << 20)

/*
 * Physical addresses where RAM's bus addresses have a gap: the first is in the RAM that a kernel
 * boots with, the second is above.
 */
#define MOCK_BORDER_BOOT (8ull << 20)
#define MOCK_BORDER_LATE (40ull << 20)

struct mock_options {
	uint64_t memory;		/* ceiling in bytes */
	uint64_t memory_given;		/* bytes of RAM before the host refuses more; 0: all */
	uint64_t disk_size;		/* bytes; 0: there is no block group */
	uint32_t vcpus;
	uint32_t log_level;		/* lines of this level and below go to standard error */
	bool pinned;			/* OB_HOST_RAM_IS_PINNED */
	bool executable;		/* OB_HOST_RAM_IS_EXECUTABLE */
	const struct mock_device *device;	/* NULL: the groups that drivers need are absent */
	const struct mock_program *program;	/* NULL: the group spaces is absent */
	bool no_dma;			/* the group dma is absent, even if there is a device */
	const struct ob_dma_extent *extents;	/* NULL: those of device.c */
	uint32_t extent_count;
	const struct ob_pci_window *windows;	/* of the bus; NULL: that of MOCK_WINDOW_ADDRESS */
	uint32_t window_count;
	uint32_t messages_most;		/* that one call can open; 0: no limit */
	uint64_t table_size;		/* stated by the table of hypercalls; 0: all groups */
	bool mapping;			/* the mapping group is there */
	uint32_t thread_block;		/* bytes of each thread's; 0: OB_THREAD_BLOCK_BYTES */
	/* Gets the lines of the log; NULL: they go to standard error. */
	void (*log)(int level, const char *line, uint64_t length);
	/* Mistakes; NULL: none. Change the table that the kernel gets, and where a region is. */
	void (*change)(struct ob_hypercalls *table);
	uint64_t (*place)(enum ob_region region, uint64_t address);
};

/* The kernel's calls so far. */
struct mock_counts {
	uint64_t extended;		/* bytes of RAM */
	uint64_t discarded;		/* bytes of RAM */
	uint64_t longest_extension;	/* in bytes, without the first */
	uint32_t services;		/* calls of ob_kernel_service() */
	uint32_t interrupts_open;	/* now */
	uint32_t interrupts_live;	/* now: open, and not masked */
	uint32_t device_maps;		/* now: mappings of device memory */
	uint32_t wrong_unmaps;		/* of what is no such mapping */
	uint32_t masked, unmasked;	/* calls */
	uint64_t affinity;		/* the last hint */
	uint32_t wrong_opens;		/* of what is open or does not exist */
	uint32_t wrong_ends;		/* of interrupts that were not raised by a level pin */
	uint32_t pin_interrupts;	/* that were raised */
	uint32_t threads;		/* for the kernel and by mock_client() */
	uint64_t mapped;		/* now: bytes that windows show */
	uint32_t most_ranges;		/* of one call of ob_host_unmap_many() */
	uint32_t spaces;		/* now */
	uint32_t wrong_spaces;		/* calls for a space that does not exist */
};

/*
 * Loads the image in that file. A process can have MOCK_KERNELS at a time. NULL, and a message on
 * standard error: the file is no kernel image of this interface version, there are too many
 * kernels, or the host has no memory. mock_refusal() is why the last image was refused; NULL: none
 * was.
 */
#define MOCK_KERNELS 2
struct ob_host *mock_new(const char *image, const struct mock_options *options);
const char *mock_refusal(void);

/* Boots the kernel: the result of ob_kernel_boot(). The calling thread becomes a client. */
int mock_boot(struct ob_host *host);

/* One system call of the calling client. */
long mock_call(struct ob_host *host, long number, long a, long b, long c, long d, long e);

/*
 * Starts another client: fn(arg) on a thread of this platform, which the kernel adopts with its
 * first call. Returns a handle for ob_host_thread_join(). 0: there are too many threads.
 */
uint64_t mock_client(struct ob_host *host, void (*fn)(void *arg), void *arg);

/* Halts the kernel: the result of ob_kernel_halt(). */
int mock_halt(struct ob_host *host);

/* Frees all that mock_new() allocated. The kernel has halted. */
void mock_free(struct ob_host *host);

/* The bytes of the disk, whose path is "ram". */
char *mock_disk(struct ob_host *host);

/* The device writes a message to the bus. */
void mock_message(struct ob_host *host, uint64_t address, uint32_t data);

/* Devices assert the line of that pin, or none does any more. `pin`: below MOCK_PINS. */
void mock_line(struct ob_host *host, uint32_t pin, bool asserted);

/* RAM by its bus address, as the device sees it. NULL: not all of this range is RAM. */
void *mock_dma(struct ob_host *host, uint64_t bus, uint64_t size);

/* Memory of user code. NULL: the space does not show the page with these rights. */
void *mock_space_memory(struct ob_host *host, uint64_t space, uint64_t address,
			uint32_t protection);

/* RAM by its physical address. */
void *mock_ram(struct ob_host *host, uint64_t physical);

const struct ob_upcalls *mock_upcalls(const struct ob_host *host);
const struct mock_counts *mock_counts(const struct ob_host *host);

#endif
