/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of one kernel's platform: struct ob_host of outboard/hypercall.h. Each member belongs
 * to the file that the comment above its type names. State of the whole process is static in its
 * file: signal handlers (signal.c), hooks (start.c, thread.c), the archive of components.
 */
#ifndef OUTBOARD_POSIX_HOST_H
#define OUTBOARD_POSIX_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <outboard/platform.h>


#define PAGE_BYTES 4096ull

/* regions.c */

struct ob_posix_region {
	uint64_t address;
	uint64_t size;		/* 0: not reserved */
};

/* ram.c */

struct ob_posix_ram {
	int fd;			/* the memfd; meaningful when RAM is reserved */
	int huge_fd;		/* file of the addresses from huge_from on */
	uint64_t huge_from;	/* physical; 0: there is no such file. No snapshot page is above */
	bool is_shared;		/* other processes map the memfd: all of RAM is there, and stays */
	bool is_prepared;	/* the memfd is there, and no region has it yet (ram.c) */
};

/* headroom.c */

struct ob_posix_headroom {
	uint64_t address;	/* of the mappings; 0: given up; atomic */
	bool begun;		/* atomic */
};

/* snapshot/pages.c */

/* How much of RAM can come from a snapshot. */
#define OB_SNAPSHOT_BYTES (128ull << 20)
#define OB_SNAPSHOT_WORDS (OB_SNAPSHOT_BYTES / PAGE_BYTES / 64)

struct ob_posix_pages {
	/* One bit for each page of RAM: the page is a snapshot's. Atomic. */
	uint64_t words[OB_SNAPSHOT_WORDS];
	/* The same for pages that were mapped anew, alone: a fork()ed child gets them. Atomic. */
	uint64_t new[OB_SNAPSHOT_WORDS];
};

/* snapshot/pieces.c */

/*
 * Pages of a window that are mapped from a snapshot. Before the window changes there, their
 * contents must move to RAM.
 */
struct ob_window_piece {
	uint64_t address;
	uint64_t size;
	uint64_t physical;
};

#define OB_WINDOW_PIECES 512

struct ob_posix_pieces {
	struct ob_window_piece pieces[OB_WINDOW_PIECES];	/* of the MODULES window */
	int count;
};

/* snapshot/closed.c */

struct ob_closed_piece {
	uint64_t address;
	uint64_t size;
	int protection;
	uint32_t state;		/* atomic */
};

#define OB_CLOSED_PIECES 1024

struct ob_posix_closed {
	struct ob_closed_piece pieces[OB_CLOSED_PIECES];
	uint32_t count;
	bool executable;	/* one of them is executable */
	uint32_t opening;	/* threads between reading a state and opening a piece; atomic */
	bool all_open;		/* atomic */
};

/* huge.c */

#define OB_HUGE_STACK_BYTES (16ul << 10)

struct ob_posix_huge {
	uint32_t state;		/* atomic */
	int fd;			/* while MADE */
	bool is_hidden;		/* stubs have been made without the file: space.c; atomic */
	bool has_thread;
	uint64_t thread;
	/* The child's. Only one thread makes a child. */
	_Alignas(64) char stack[OB_HUGE_STACK_BYTES];
};

/* block_table.c */

#define OB_DISK_CHUNKS 31	/* enough for all positive values of an int */

struct ob_posix_disks {
	struct ob_posix_disk *chunks[OB_DISK_CHUNKS];
	pthread_mutex_t mutex;
};

/* block_queue.c */

#define OB_BLOCK_WORKERS 16

struct ob_posix_queue {
	/* Shared with submitters; atomic. */
	struct ob_block_request *inbox;
	struct ob_block_request *completed;
	uint32_t arrivals;
	uint32_t sleepers;
	bool stopping;
	/* Owned by the workers. */
	pthread_mutex_t mutex;
	struct ob_block_request *waiting;	/* oldest first */
	struct ob_block_request *waiting_last;
	/* Owned by threads that open or close a disk. */
	pthread_mutex_t users_mutex;
	uint32_t users;
	/* Grows with start_mutex held. The last user resets it when no request is left. */
	pthread_mutex_t start_mutex;
	uint32_t worker_count;		/* atomic */
	uint64_t workers[OB_BLOCK_WORKERS];
};

/* block_served.c */

struct ob_posix_offers {
	pthread_mutex_t mutex;
	struct ob_offer *first;
	int last_number;
};

/* virtio.c */

#define OB_VIRTIO_DEVICES_MOST 64

struct ob_posix_virtio {
	struct ob_virtio_device *devices[OB_VIRTIO_DEVICES_MOST];	/* NULL: free; atomic */
	uint32_t inserted;	/* devices so far, times the size of the table; atomic */
	uint64_t polled;	/* a bit for each device that can be polled; atomic */
	uint32_t in_poll[OB_VIRTIO_DEVICES_MOST];	/* locks, of a thread that polls; atomic */
};

/* socket.c, socket_events.c */

/* Descriptors from this number on are not used for sockets. */
#define OB_SOCKETS_MOST (1u << 20)
#define OB_SOCKET_EVENTS 1024	/* a power of two */

struct ob_posix_sockets {
	bool begun;
	bool stopping;			/* atomic */
	int epoll, stop;		/* descriptors, while `begun` */
	int first;			/* number of the first socket, if it is free */
	uint64_t thread;
	uint32_t moved;			/* events put into the ring, ever; atomic */
	uint32_t taken;			/* events taken from it, ever; atomic */
	struct ob_socket_event ring[OB_SOCKET_EVENTS];
	/* A bit for each descriptor that is a socket of the kernel. Atomic. */
	uint64_t open[OB_SOCKETS_MOST / 64];
};

/* snapshot/request.c, snapshot/extents.c */

struct ob_posix_snapshot {
	int directory;			/* -1: no snapshot is wanted */
	char name[64];
	char key[2048];
	char status[256];
};

/* While a snapshot is saved. */
struct ob_posix_saving {
	struct ob_extent *extents;
	uint64_t count, room;		/* of extents */
	uint64_t data_size;
};

/* thread.c */

/* Most threads that can be starting at the same time. */
#define OB_STARTS 64

/*
 * What a new thread is to run. Owned by the thread once it runs. Not from the heap: a thread that
 * frees heap memory first gets a heap arena of its own from the C library, which takes longer than
 * to start it.
 */
struct ob_start {
	struct ob_host *host;
	void (*fn)(void *arg);
	void *arg;
	char name[16];
};

struct ob_posix_threads {
	struct ob_start starts[OB_STARTS];
	bool used[OB_STARTS];		/* atomic */
};

/* space/space.h */
struct ob_spaces;

struct ob_host {
	bool taken;			/* by an instance of lib/ */
	/* its kernel may run, so signals and ends of threads concern it; atomic */
	bool live;
	/* a thread that did not end may use the regions, which stay; atomic */
	bool left_behind;
	const struct ob_upcalls *upcalls;	/* not NULL after the host was taken once; atomic */
	/* console.c */
	ob_platform_log *log;
	void *log_context;
	/* panic.c */
	ob_platform_panic *panic;
	void *panic_context;
	/* image.c: the kernel's code */
	uint64_t text_address, text_size;
	/* address_space.c: address of the next region; 0: anywhere */
	uint64_t place;
	struct ob_posix_region regions[OB_REGIONS];
	struct ob_posix_ram ram;
	struct ob_posix_headroom headroom;
	struct ob_posix_pages pages;
	struct ob_posix_pieces pieces;
	struct ob_posix_closed closed;
	struct ob_posix_huge huge;
	struct ob_posix_disks disks;
	struct ob_posix_queue queue;
	struct ob_posix_offers offers;
	struct ob_posix_virtio virtio;
	struct ob_posix_sockets sockets;
	struct ob_posix_snapshot snapshot;
	struct ob_posix_saving saving;
	struct ob_posix_threads threads;
	struct ob_spaces *spaces;	/* NULL: there is no zygote yet; atomic */
};

/*
 * The first host from `host` on that has a live kernel; NULL: there is none. Signal handlers may
 * call this, because a host is never freed: another kernel takes it.
 */
struct ob_host *ob_host_live(struct ob_host *host);
struct ob_host *ob_host_first(void);

#define ob_for_each_live_host(host) \
	for (host = ob_host_live(ob_host_first()); host; host = ob_host_live(host + 1))

/* Calls the function for all hosts that were ever taken. For a fork()ed child. */
void ob_host_for_all(void (*function)(struct ob_host *host));

#endif
