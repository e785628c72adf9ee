// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the block part of the POSIX platform without a kernel: opening and
 * locking, every operation, errors, and many requests in flight, checked byte by byte
 * against a model. Arguments: a directory for the images, and optionally a block device
 * with sectors of 4096 bytes whose contents may be lost. Link with block_bed.c, block_open.c and
 * block_durable.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block_bed.h"
#include "threads.h"

static void test_bounds(void)
{
	struct ob_block_info info;
	struct stat status;
	char buffer[1024] = { 0 };
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, IMAGE_SIZE - 512, buffer, 512), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, IMAGE_SIZE - 512, buffer, 1024), -EIO);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, UINT64_MAX - 511, buffer, 1024), -EIO);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, IMAGE_SIZE, buffer, 512), -EIO);
	CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 4096, IMAGE_SIZE), -EIO);
	CHECK_EQUAL(range(disk, 99, 0, 512), -EOPNOTSUPP);
	CHECK_EQUAL(range(disk + 1, OB_BLOCK_FLUSH, 0, 0), -ENODEV);
	CHECK_EQUAL(range(-1, OB_BLOCK_FLUSH, 0, 0), -ENODEV);
	/* Segments that are shorter than the request. */
	CHECK_EQUAL(range(disk, OB_BLOCK_READ, 0, 512), -EIO);
	CHECK_EQUAL(stat(image, &status), 0);
	CHECK_EQUAL(status.st_size, IMAGE_SIZE);
	/* Somebody makes the file shorter behind our back. */
	CHECK_EQUAL(truncate(image, 4096 + 100), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 4096, buffer, 512), -EIO);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 8192, buffer, 512), -EIO);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 0, buffer, 512), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* The host's error becomes the request's. */
static void test_host_error(void)
{
	struct rlimit limit = { .rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY };
	struct ob_block_info info;
	char buffer[512] = { 0 };
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 2 << 20, buffer, 512), -EFBIG);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, (void *)8, 512), -EFAULT);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 0, (void *)8, 512), -EFAULT);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 2 << 20, buffer, 512), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* The caller does not do a long readahead itself, even if the host has the data in memory. */
static void test_ahead(void)
{
	static char buffer[1 << 20];
	struct ob_block_segment segment = { buffer, sizeof(buffer) };
	struct ob_block_request request = {
		.operation = OB_BLOCK_READ, .ahead = 1, .segment_count = 1, .segments = &segment,
	};
	struct ob_block_info info;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	memset(buffer, 'a', sizeof(buffer));
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, buffer, sizeof(buffer)), 0);
	memset(buffer, 'b', sizeof(buffer));
	request.disk = (uint32_t)disk;
	request.length = sizeof(buffer);
	CHECK_EQUAL(ob_host_block_submit(mock_host, &request), 0);
	CHECK(next_completed() == &request);
	CHECK_EQUAL(request.result, 0);
	CHECK_EQUAL(buffer[0], 'a');
	CHECK_EQUAL(buffer[sizeof(buffer) - 1], 'a');
	request.length = 4096;
	CHECK_EQUAL(run(&request), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

static void test_operations(void)
{
	static char buffer[1 << 20];
	struct ob_block_segment segment = { buffer, sizeof(buffer) };
	struct ob_block_request durable = {
		.operation = OB_BLOCK_WRITE, .force_unit_access = 1, .offset = 1 << 20,
		.length = sizeof(buffer), .segment_count = 1, .segments = &segment,
	};
	struct ob_block_info info;
	struct stat before, after;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	memset(buffer, 'a', sizeof(buffer));
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, buffer, sizeof(buffer)), 0);
	durable.disk = (uint32_t)disk;
	CHECK_EQUAL(run(&durable), 0);
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), 0);
	check_bytes(disk, 0, 2 << 20, 'a');
	CHECK_EQUAL(stat(image, &before), 0);
	if (!info.can_discard) {
		CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 0, 4096), -EOPNOTSUPP);
	} else {
		CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 0, 1 << 20), 0);
		CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, (1 << 20) + 512, 512), 0);
		CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, 0, 0), 0);
		CHECK_EQUAL(stat(image, &after), 0);
		CHECK_EQUAL(after.st_size, IMAGE_SIZE);
		CHECK(before.st_blocks - after.st_blocks >= (1 << 20) / 512);
		check_bytes(disk, 0, 1 << 20, 0);
		check_bytes(disk, 1 << 20, 512, 'a');
		check_bytes(disk, (1 << 20) + 512, 512, 0);
		check_bytes(disk, (1 << 20) + 1024, 512, 'a');
	}
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* More segments than the host takes at once, of uneven lengths, some of them empty. */
static void test_many_segments(void)
{
	enum { SEGMENTS = 3000 };
	static struct ob_block_segment segments[SEGMENTS];
	static char out[IMAGE_SIZE], in[IMAGE_SIZE];
	struct ob_block_request request = { .segment_count = SEGMENTS,
					    .segments = segments,
					    .offset = 512 };
	struct ob_block_info info;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	request.disk = (uint32_t)disk;
	for (int i = 0; i < SEGMENTS; i++) {
		segments[i].address = out + request.length;
		segments[i].length = (uint64_t)(i % 7) * 100;
		request.length += segments[i].length;
	}
	for (uint64_t i = 0; i < request.length; i++)
		out[i] = (char)(i * 7 + i / 512);
	request.operation = OB_BLOCK_WRITE;
	CHECK_EQUAL(run(&request), 0);
	for (int i = 0; i < SEGMENTS; i++)
		segments[i].address = in + ((char *)segments[i].address - out);
	request.operation = OB_BLOCK_READ;
	CHECK_EQUAL(run(&request), 0);
	CHECK(!memcmp(in, out, request.length));
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* The table of disks grows, numbers are used again, and the lock-free lookup sees all. */
static void test_many_disks(void)
{
	enum { DISKS = 100 };
	struct ob_block_info info;
	char buffer[512];
	int disks[DISKS];

	make_image(IMAGE_SIZE);
	for (int i = 0; i < DISKS; i++) {
		disks[i] = open_image(OB_BLOCK_NO_LOCK, &info);
		for (int j = 0; j < i; j++)
			CHECK(disks[i] != disks[j]);
		memset(buffer, i, sizeof(buffer));
		CHECK_EQUAL(transfer(disks[i], OB_BLOCK_WRITE, (uint64_t)i * 512, buffer, 512), 0);
	}
	for (int i = 0; i < DISKS; i++)
		check_bytes(disks[DISKS - 1 - i], (uint64_t)i * 512, 512, (char)i);
	ob_host_block_close(mock_host, (uint32_t)disks[17]);
	CHECK_EQUAL(range(disks[17], OB_BLOCK_FLUSH, 0, 0), -ENODEV);
	CHECK_EQUAL(open_image(OB_BLOCK_NO_LOCK, &info), disks[17]);
	for (int i = 0; i < DISKS; i++)
		ob_host_block_close(mock_host, (uint32_t)disks[i]);
}

/*
 * Load: slots of the image, each with one request in flight at a time, all of
 * them at once. The contents of each slot are known, so every read is checked.
 */
#define SLOTS 64
#define SLOT_SIZE 16384ul
#define ROUNDS 4000

struct slot {
	struct ob_block_request request;
	struct ob_block_segment segments[2];
	char buffer[SLOT_SIZE];
	char contents;
};

static struct slot slots[SLOTS];

static void prepare_slot(struct slot *slot, int disk, unsigned int random, bool can_discard)
{
	uint32_t operation = random % (can_discard ? 6 : 3);

	slot->segments[0] = (struct ob_block_segment){ slot->buffer, 512 };
	slot->segments[1] = (struct ob_block_segment){ slot->buffer + 512, SLOT_SIZE - 512 };
	slot->request = (struct ob_block_request){
		.disk = (uint32_t)disk,
		.operation = operation,
		.force_unit_access = random % 50 == 1,
		.offset = (uint64_t)(slot - slots) * SLOT_SIZE,
		.length = operation == OB_BLOCK_FLUSH ? 0 : SLOT_SIZE,
		.segment_count = 2,
		.segments = slot->segments,
		.result = 12345,
	};
	if (operation == OB_BLOCK_READ)
		memset(slot->buffer, slot->contents + 1, SLOT_SIZE);
	if (operation == OB_BLOCK_WRITE || operation == OB_BLOCK_FLUSH_WRITE) {
		slot->contents = (char)(random / 8);
		memset(slot->buffer, slot->contents, SLOT_SIZE);
	}
	if (operation == OB_BLOCK_DISCARD || operation == OB_BLOCK_WRITE_ZEROES)
		slot->contents = 0;
}

static void check_slot(const struct slot *slot)
{
	CHECK_EQUAL(slot->request.result, 0);
	for (uint64_t i = 0; slot->request.operation == OB_BLOCK_READ && i < SLOT_SIZE; i++)
		CHECK_EQUAL(slot->buffer[i], slot->contents);
}

static void test_load(void)
{
	struct ob_block_info info;
	unsigned int seed = 20240607, in_flight = 0, next = 0, rounds = 0;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	while (rounds < ROUNDS || in_flight) {
		if (rounds < ROUNDS && in_flight < SLOTS && next < SLOTS) {
			struct slot *slot = &slots[next++];

			rounds++;
			prepare_slot(slot, disk, (unsigned int)rand_r(&seed), info.can_discard);
			if (ob_host_block_submit(mock_host, &slot->request))
				check_slot(slot);
			else
				in_flight++;
		} else {
			while (in_flight) {
				check_slot((struct slot *)next_completed());
				in_flight--;
			}
			next = 0;
		}
	}
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* Several submitters on one disk, as vCPUs are; one taker of completions. */
#define SUBMITTERS 3
#define PER_SUBMITTER 500

static struct ob_block_request shared_requests[SUBMITTERS][PER_SUBMITTER];
static uint32_t finished;

static void *submit_many(void *requests)
{
	struct ob_block_request *request = requests;

	for (int i = 0; i < PER_SUBMITTER; i++) {
		if (ob_host_block_submit(mock_host, &request[i]))
			__atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void test_many_submitters(void)
{
	static char zeroes[512];
	static struct ob_block_segment segment = { zeroes, sizeof(zeroes) };
	pthread_t threads[SUBMITTERS];
	struct ob_block_info info;
	uint32_t taken = 0;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	for (int i = 0; i < SUBMITTERS; i++) {
		for (int j = 0; j < PER_SUBMITTER; j++)
			shared_requests[i][j] = (struct ob_block_request){
				.disk = (uint32_t)disk,
				.operation = OB_BLOCK_WRITE,
				.length = 512,
				.offset = (uint64_t)j * 512,
				.segment_count = 1,
				.segments = &segment,
				.result = 12345,
			};
		CHECK_EQUAL(pthread_create(&threads[i], NULL, submit_many, shared_requests[i]), 0);
	}
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(threads[i], NULL);
	while (taken + finished < SUBMITTERS * PER_SUBMITTER) {
		CHECK_EQUAL(next_completed()->result, 0);
		taken++;
	}
	CHECK(!ob_host_block_completed(mock_host));
	for (int i = 0; i < SUBMITTERS * PER_SUBMITTER; i++)
		CHECK_EQUAL(shared_requests[i / PER_SUBMITTER][i % PER_SUBMITTER].result, 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

static int workers(void)
{
	return threads_named("outboard-block", NULL);
}

/* A disk whose requests end when there are as many as there may be at a time. */
#define TOGETHER 16
#define PATIENCE 300	/* seconds */

static struct {
	uint32_t inside;	/* words */
	uint32_t closed;
} meeting;

static int meet(void *context, const struct ob_block_request *request)
{
	uint32_t inside = __atomic_add_fetch(&meeting.inside, 1, __ATOMIC_SEQ_CST);

	(void)context;
	(void)request;
	alarm(PATIENCE);
	ob_host_wake(mock_host, &meeting.inside, TOGETHER);
	while (inside < TOGETHER) {
		ob_host_wait(mock_host, &meeting.inside, inside, OB_FOREVER);
		inside = __atomic_load_n(&meeting.inside, __ATOMIC_SEQ_CST);
	}
	return 0;
}

static void leave(void *context)
{
	(void)context;
	__atomic_store_n(&meeting.closed, 1, __ATOMIC_SEQ_CST);
}

/* One thread waits for work. More start when some block, so that requests run side by side. */
static void test_workers(void)
{
	struct ob_platform_served_disk served = {
		.perform = meet, .closed = leave, .size = IMAGE_SIZE, .sector_size = 512,
	};
	struct ob_block_request requests[TOGETHER];
	struct ob_block_info info;
	char number[16];
	int disk;

	CHECK_EQUAL(workers(), 0);
	snprintf(number, sizeof(number), "%d", ob_platform_disk_offer(mock_host, &served));
	disk = ob_host_block_open(mock_host, number, OB_BLOCK_SERVED, &info);
	CHECK(disk >= 0);
	CHECK(workers() <= 1);		/* it may have no name yet */
	for (int i = 0; i < TOGETHER; i++) {
		requests[i] = (struct ob_block_request){
			.disk = (uint32_t)disk, .operation = OB_BLOCK_FLUSH,
		};
		CHECK_EQUAL(ob_host_block_submit(mock_host, &requests[i]), 0);
	}
	for (int i = 0; i < TOGETHER; i++)
		CHECK_EQUAL(next_completed()->result, 0);
	alarm(0);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK_EQUAL(meeting.closed, 1);
	CHECK(ob_platform_disk_withdraw(mock_host, atoi(number)));
	CHECK_EQUAL(workers(), 0);
}

static void test_device(const char *device)
{
	static char buffer[1 << 16];
	struct ob_block_segment segment = { buffer, sizeof(buffer) };
	struct ob_block_request durable = {
		.operation = OB_BLOCK_WRITE, .force_unit_access = 1, .length = sizeof(buffer),
		.segment_count = 1, .segments = &segment,
	};
	struct ob_block_info info;
	int disk, claim;

	/* Somebody has claimed the device, as a mount does. */
	claim = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
	CHECK(claim >= 0);
	CHECK_EQUAL(ob_host_block_open(mock_host, device, 0, &info), -EBUSY);
	close(claim);
	disk = ob_host_block_open(mock_host, device, 0, &info);
	CHECK(disk >= 0);
	CHECK_EQUAL(info.sector_size, 4096);
	CHECK_EQUAL(info.size, IMAGE_SIZE);
	memset(buffer, 'd', sizeof(buffer));
	durable.disk = (uint32_t)disk;
	CHECK_EQUAL(run(&durable), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, IMAGE_SIZE - sizeof(buffer), buffer,
			     sizeof(buffer)),
		    0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, IMAGE_SIZE, buffer, 4096), -EIO);
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), 0);
	check_bytes(disk, 0, sizeof(buffer), 'd');
	CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, 4096, 4096), 0);
	check_bytes(disk, 0, 4096, 'd');
	check_bytes(disk, 4096, 4096, 0);
	CHECK_EQUAL(info.can_discard, 1);
	CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 0, sizeof(buffer)), 0);
	check_bytes(disk, 0, sizeof(buffer), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

int main(int count, char **arguments)
{
	CHECK(count == 2 || count == 3);
	snprintf(image, sizeof(image), "%s/disk.img", arguments[1]);
	CHECK_EQUAL(ob_platform_start(mock_host, NULL, NULL), 0);
	test_open(arguments[1]);
	test_bounds();
	test_host_error();
	test_operations();
	test_ahead();
	test_many_segments();
	test_many_disks();
	test_load();
	test_many_submitters();
	test_durability();
	test_workers();
	if (count == 3)
		test_device(arguments[2]);
	ob_platform_stop(mock_host);
	CHECK_EQUAL(unlink(image), 0);
	return 0;
}
