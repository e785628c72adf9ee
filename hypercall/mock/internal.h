/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of the mock platform share. */
#ifndef OUTBOARD_MOCK_INTERNAL_H
#define OUTBOARD_MOCK_INTERNAL_H

#include <stddef.h>
#include <ucontext.h>

#include "mock.h"

#define MOCK_VCPUS 64
#define MOCK_THREADS 256
#define MOCK_DEVICE_MAPS 16
#define MOCK_SPACES 16
#define MOCK_SPACE_PAGES 1024
#define MOCK_VECTOR_BYTES 16384

#define PAGE_BYTES 4096ull

struct mock_region {
	uint64_t address;
	uint64_t size;			/* 0: not reserved */
};

/* A region that shows pages of RAM. */
struct mock_window {
	uint64_t address;
	uint64_t size;
	uint8_t *shown;			/* a byte for each page; NULL: there is no such window */
};

/* A thread of this platform: a coroutine of the only host thread. */
struct mock_thread {
	ucontext_t context;		/* while another one runs */
	void *stack;			/* NULL: that of the program */
	void (*fn)(void *arg);
	void *arg;
	const uint32_t *word;		/* that it waits on; NULL: it can run */
	uint64_t until;			/* of the monotonic clock; OB_FOREVER */
	uint32_t ended;			/* word: 1 when fn has returned */
	bool used;
	bool adopted;			/* by the kernel, which wants to know of its end */
	char block[OB_THREAD_BLOCK_BYTES];	/* the kernel's, while another one runs */
};

/* The service of a vCPU. */
struct mock_service {
	uint64_t at;			/* when it is due */
	bool runs;
	bool on;
};

struct mock_space {
	bool used;
	uint32_t count;
	struct mock_space_page {
		uint64_t address, physical;
		uint32_t protection;
	} pages[MOCK_SPACE_PAGES];	/* that are shown */
};

/* An input of the interrupt controller. */
struct mock_pin {
	uint32_t interrupt;		/* 0: the pin is not open */
	uint32_t flags;
	bool asserted;			/* by a device */
	bool raised;			/* a level interrupt that the kernel has not ended */
};

struct ob_host {
	struct mock_options options;
	struct mock_counts counts;
	const struct ob_upcalls *upcalls;
	void *image;			/* where the kernel is loaded */
	uint64_t image_size;
	struct mock_region regions[OB_REGIONS];
	void *ram;			/* its first byte */
	struct mock_window windows[OB_REGIONS];
	int ram_file;			/* that windows show; 0: there are none */
	bool interrupts[OB_INTERRUPTS];	/* open */
	bool masked[OB_INTERRUPTS];	/* of those that are open */
	struct mock_pin pins[MOCK_PINS];
	uint64_t device_maps[MOCK_DEVICE_MAPS];	/* pointers; 0: unused */
	struct ob_hypercalls table;
	struct mock_thread threads[MOCK_THREADS];
	struct mock_thread *current;
	char *thread_block;		/* of the host thread, for this kernel; NULL: none */
	struct mock_service services[MOCK_VCPUS];
	struct mock_space spaces[MOCK_SPACES];
	char vectors[MOCK_VCPUS][MOCK_VECTOR_BYTES];	/* of the last entry */
	uint64_t space_interrupts;	/* bits of vCPUs whose next entry ends at once */
	uint32_t service_word;		/* changes when a service is requested */
	char *disk;
};

/* load.c: fills upcalls, image and image_size. */
bool mock_load(struct ob_host *host, const char *path);

/* threads.c */
/* False: there are too many kernels. */
bool mock_threads_begin(struct ob_host *host);
void mock_threads_end(struct ob_host *host);
/* Of each thread's block, from the thread pointer. */
int64_t mock_thread_block_distance(const struct ob_host *host);

/* device.c: all vCPUs have stopped, and RAM is still there. */
void mock_device_vcpus_stopped(struct ob_host *host);

/* mapping.c: a host with windows. All regions are reserved. */
int mock_window_begin(struct ob_host *host, enum ob_region region, uint64_t address, uint64_t size);
int mock_ram_share(struct ob_host *host, uint64_t address, uint64_t size);
void mock_windows_end(struct ob_host *host);

/* tables.c */
void mock_tables_fill(const struct ob_host *host, struct ob_hypercalls *table);

#endif
