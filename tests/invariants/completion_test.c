// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client that polls shared memory sees its completions (V9): completion_test VCPUS
 * parked|evicted|calls|watched
 *
 * It submits reads with O_DIRECT to an io_uring, and makes no call until the completion is in the
 * ring. The kernel puts it there in work of the client's task. Meanwhile that task is
 *
 *   parked    the disk answers at once
 *   evicted   the disk takes five ticks
 *   calls     the disk takes some time, and the client makes other calls while it waits
 *   watched   parked, and a thread of the kernel watches the ring: to submit is no call either
 *
 * A ring that polls the disk itself (IORING_SETUP_IOPOLL) gets an error: disks have no polled
 * queues.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../library/client.h"

#define BLOCK 4096u
#define CAPACITY (1ul << 20)
#define DEADLINE 120		/* seconds */
#define WATCHED 60000		/* milliseconds until a watching thread sleeps */

static volatile unsigned int disk_takes;	/* microseconds */

struct ring {
	int fd;
	bool is_watched;
	unsigned int *tail, *mask, *array, *flags;
	struct io_uring_sqe *entries;
	unsigned int *done_head, *done_tail, *done_mask;
	struct io_uring_cqe *done;
};

static int disk_read(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	usleep(disk_takes);
	for (int i = 0; i < count; offset += pieces[i++].iov_len)
		memset(pieces[i].iov_base, (int)(offset / BLOCK), pieces[i].iov_len);
	return 0;
}

static int open_disk(void)
{
	static const struct ob_disk_operations operations = { .size = sizeof(operations),
							      .read = disk_read };
	struct ob_disk_config config = {
		.size = sizeof(config),
		.flags = OB_DISK_READ_ONLY,
		.operations = &operations,
		.capacity = CAPACITY,
	};
	char name[32], device[48];

	CHECK(ob_disk_add(&config, name) >= 0);
	snprintf(device, sizeof(device), "/dev/%s", name);
	return (int)OK(ob_sys_openat(AT_FDCWD, device, O_RDONLY | O_DIRECT, 0));
}

static char *map(int fd, size_t size, unsigned long offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	return (char *)OK(ob_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset));
}

static void ring_open(struct ring *ring, unsigned int flags)
{
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = WATCHED };
	char *submitted, *completed;

	ring->fd = (int)OK(ob_sys_io_uring_setup(4, &p));
	submitted = map(ring->fd, p.sq_off.array + p.sq_entries * sizeof(unsigned int),
			IORING_OFF_SQ_RING);
	completed = map(ring->fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
			IORING_OFF_CQ_RING);
	ring->entries = (void *)map(ring->fd, p.sq_entries * sizeof(struct io_uring_sqe),
				    IORING_OFF_SQES);
	ring->tail = (void *)(submitted + p.sq_off.tail);
	ring->mask = (void *)(submitted + p.sq_off.ring_mask);
	ring->array = (void *)(submitted + p.sq_off.array);
	ring->flags = (void *)(submitted + p.sq_off.flags);
	ring->is_watched = flags & IORING_SETUP_SQPOLL;
	ring->done_head = (void *)(completed + p.cq_off.head);
	ring->done_tail = (void *)(completed + p.cq_off.tail);
	ring->done_mask = (void *)(completed + p.cq_off.ring_mask);
	ring->done = (void *)(completed + p.cq_off.cqes);
}

static void add_read(struct ring *ring, int disk, char *buffer, unsigned int block)
{
	unsigned int index = *ring->tail & *ring->mask;

	ring->entries[index] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .fd = disk, .addr = (unsigned long)buffer, .len = BLOCK,
		.off = (unsigned long)block * BLOCK, .user_data = block,
	};
	ring->array[index] = index;
	__atomic_store_n(ring->tail, *ring->tail + 1, __ATOMIC_SEQ_CST);
}

static void submit(struct ring *ring, int disk, char *buffer, unsigned int block)
{
	add_read(ring, disk, buffer, block);
	if (!ring->is_watched)
		CHECK_EQUAL(OK(ob_sys_io_uring_enter(ring->fd, 1, 0, 0, NULL, 0)), 1);
	else if (__atomic_load_n(ring->flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
		OK(ob_sys_io_uring_enter(ring->fd, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0));
}

static void await(struct ring *ring, unsigned int block, int calls)
{
	unsigned int head = *ring->done_head;
	struct io_uring_cqe *cqe = &ring->done[head & *ring->done_mask];

	while (__atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE) == head)
		if (calls)
			OK(ob_sys_getppid());
	CHECK_EQUAL(cqe->user_data, block);
	CHECK_EQUAL(cqe->res, BLOCK);
	__atomic_store_n(ring->done_head, head + 1, __ATOMIC_RELEASE);
}

static void check_polled_queues(int disk, char *buffer)
{
	struct ring ring;

	ring_open(&ring, IORING_SETUP_IOPOLL);
	add_read(&ring, disk, buffer, 0);
	CHECK_EQUAL(OK(ob_sys_io_uring_enter(ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0)), 1);
	CHECK_EQUAL(*ring.done_tail, *ring.done_head + 1);
	CHECK_EQUAL(ring.done[*ring.done_head & *ring.done_mask].res, -EOPNOTSUPP);
	OK(ob_sys_close((unsigned int)ring.fd));
}

int main(int count, char **arguments)
{
	struct ring ring;
	char *buffer;
	int disk;

	CHECK_EQUAL(count, 3);
	alarm(DEADLINE);
	client_boot((unsigned int)atoi(arguments[1]));
	disk = open_disk();
	buffer = map(-1, BLOCK, 0);
	check_polled_queues(disk, buffer);
	ring_open(&ring, strcmp(arguments[2], "watched") ? 0 : IORING_SETUP_SQPOLL);
	disk_takes = !strcmp(arguments[2], "evicted") ? 50000 : 500;
	if (!strcmp(arguments[2], "parked") || ring.is_watched)
		disk_takes = 0;
	for (unsigned int i = 0; i < 20; i++) {
		submit(&ring, disk, buffer, i);
		await(&ring, i, !strcmp(arguments[2], "calls"));
		CHECK(buffer[0] == (char)i && !memcmp(buffer, buffer + 1, BLOCK - 1));
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
