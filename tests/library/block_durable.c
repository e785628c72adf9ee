// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the POSIX platform's disks: flushes and durable requests, data that the host has lost,
 * zeroes and their room.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "block_bed.h"

/* Whether a flush is complete at once, as there is nothing that it could make durable. */
static bool flush_is_free(int disk)
{
	struct ob_block_request request = { .disk = (uint32_t)disk, .operation = OB_BLOCK_FLUSH };
	int complete = ob_host_block_submit(mock_host, &request);

	if (!complete)
		CHECK(next_completed() == &request);
	CHECK_EQUAL(request.result, 0);
	return complete;
}

static void test_flush(void)
{
	static char buffer[4096];
	struct ob_block_segment segment = { buffer, sizeof(buffer) };
	struct ob_block_request durable = {
		.operation = OB_BLOCK_WRITE, .force_unit_access = 1, .length = sizeof(buffer),
		.segment_count = 1, .segments = &segment,
	};
	struct ob_block_info info;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	durable.disk = (uint32_t)disk;
	/* Flushes the earlier writes of other tests. */
	CHECK(!flush_is_free(disk));
	CHECK(flush_is_free(disk));
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 0, buffer, sizeof(buffer)), 0);
	CHECK(flush_is_free(disk));
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, buffer, sizeof(buffer)), 0);
	CHECK(!flush_is_free(disk));
	CHECK(flush_is_free(disk));
	CHECK_EQUAL(run(&durable), 0);
	CHECK(flush_is_free(disk));
	if (info.can_discard) {
		CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, 0, sizeof(buffer)), 0);
		CHECK(!flush_is_free(disk));
		CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 0, sizeof(buffer)), 0);
		CHECK(!flush_is_free(disk));
	}
	CHECK(flush_is_free(disk));
	/* A flush that comes before a write does not cover that write. */
	CHECK(info.can_flush_write);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, buffer, sizeof(buffer)), 0);
	durable.operation = OB_BLOCK_FLUSH_WRITE;
	CHECK_EQUAL(run(&durable), 0);
	CHECK(flush_is_free(disk));
	durable.force_unit_access = 0;
	CHECK_EQUAL(run(&durable), 0);
	CHECK(!flush_is_free(disk));
	ob_host_block_close(mock_host, (uint32_t)disk);
}

static int write_durably(int disk)
{
	static char buffer[4096];
	struct ob_block_segment segment = { buffer, sizeof(buffer) };
	struct ob_block_request request = {
		.disk = (uint32_t)disk, .operation = OB_BLOCK_WRITE, .force_unit_access = 1,
		.length = sizeof(buffer), .segment_count = 1, .segments = &segment,
	};

	return run(&request);
}

static int write_plainly(int disk)
{
	static char buffer[4096];

	return transfer(disk, OB_BLOCK_WRITE, 0, buffer, sizeof(buffer));
}

/* V11: nothing claims to be durable from now on. Reads and plain writes go on. */
static void check_lost(int disk)
{
	static char buffer[4096];
	uint32_t calls = syncs.calls;

	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), -EIO);
		CHECK_EQUAL(write_plainly(disk), 0);
		CHECK_EQUAL(write_durably(disk), -EIO);
		CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, 0, buffer, sizeof(buffer)), -EIO);
	}
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 0, buffer, sizeof(buffer)), 0);
	CHECK_EQUAL(syncs.calls, calls);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* The host reports lost data once, to one of two flushes that run at once. */
static void test_lost_beside_another_flush(void)
{
	struct ob_block_request requests[2];
	struct ob_block_info info;
	int disk = open_image(0, &info);

	CHECK_EQUAL(write_plainly(disk), 0);
	syncs.succeeded = 0;
	syncs.lost = syncs.held = 1;
	for (int i = 0; i < 2; i++) {
		requests[i] = (struct ob_block_request){
			.disk = (uint32_t)disk, .operation = OB_BLOCK_FLUSH,
		};
		CHECK_EQUAL(ob_host_block_submit(mock_host, &requests[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(next_completed()->result, -EIO);
	syncs.held = 0;
	check_lost(disk);
}

static void test_lost(void)
{
	struct ob_block_info info;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	CHECK_EQUAL(write_plainly(disk), 0);
	syncs.lost = 1;
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), -EIO);
	check_lost(disk);

	/* The error of other people's data. */
	disk = open_image(0, &info);
	syncs.lost = 1;
	CHECK_EQUAL(write_durably(disk), -EIO);
	check_lost(disk);
	test_lost_beside_another_flush();

	/* A disk that is opened anew begins anew. */
	disk = open_image(0, &info);
	CHECK_EQUAL(write_durably(disk), 0);
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* Durable zeroes need no flush, and tell of lost data. */
static void test_durable_zeroes(uint32_t operation)
{
	struct ob_block_request request = {
		.operation = operation, .force_unit_access = 1, .length = 4096,
	};
	struct ob_block_info info;
	uint32_t calls;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	request.disk = (uint32_t)disk;
	if (operation == OB_BLOCK_WRITE_ZEROES && !info.can_discard) {
		ob_host_block_close(mock_host, (uint32_t)disk);
		return;
	}
	CHECK_EQUAL(write_plainly(disk), 0);
	calls = syncs.calls;
	CHECK_EQUAL(run(&request), 0);
	CHECK(syncs.calls > calls);
	CHECK(flush_is_free(disk));
	CHECK_EQUAL(write_plainly(disk), 0);
	syncs.lost = 1;
	CHECK_EQUAL(run(&request), -EIO);
	check_lost(disk);
}

static blkcnt_t blocks(void)
{
	struct stat status;

	CHECK_EQUAL(stat(image, &status), 0);
	return status.st_blocks;
}

/* Zeroes give room back to the host, unless they are to keep it. */
static void test_zeroes(void)
{
	static char buffer[1 << 16];
	struct ob_block_info info;
	blkcnt_t all;
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	memset(buffer, 'z', sizeof(buffer));
	for (uint64_t at = 0; at < IMAGE_SIZE; at += sizeof(buffer))
		CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, at, buffer, sizeof(buffer)), 0);
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), 0);
	all = blocks();
	CHECK_EQUAL(range(disk, OB_BLOCK_ALLOCATE_ZEROES, 4096, IMAGE_SIZE / 2), 0);
	CHECK(!flush_is_free(disk));
	CHECK(blocks() >= all);
	check_bytes(disk, 0, 4096, 'z');
	check_bytes(disk, 4096, IMAGE_SIZE / 2, 0);
	check_bytes(disk, 4096 + IMAGE_SIZE / 2, 4096, 'z');
	if (info.can_discard) {
		CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, 4096, IMAGE_SIZE / 2), 0);
		CHECK(blocks() < all);
	}
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* Requests to a served disk, in order; its flushes fail with this error. */
static struct {
	uint32_t operations[8];
	int count, flush_error;
} asked;

static int note(void *context, const struct ob_block_request *request)
{
	(void)context;
	CHECK(asked.count < 8);
	asked.operations[asked.count++] = request->operation;
	return request->operation == OB_BLOCK_FLUSH ? asked.flush_error : 0;
}

static void note_nothing(void *context)
{
	(void)context;
}

/* A program that serves a disk gets a flush and a write. If the flush fails, there is no write. */
static void test_flush_write(void)
{
	struct ob_platform_served_disk served = {
		.perform = note, .closed = note_nothing, .size = IMAGE_SIZE, .sector_size = 512,
	};
	struct ob_block_info info;
	char number[16], buffer[512];
	int disk;

	snprintf(number, sizeof(number), "%d", ob_platform_disk_offer(mock_host, &served));
	disk = ob_host_block_open(mock_host, number, OB_BLOCK_SERVED, &info);
	CHECK(disk >= 0 && info.can_flush_write);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, 0, buffer, sizeof(buffer)), 0);
	CHECK_EQUAL(asked.count, 2);
	CHECK_EQUAL(asked.operations[0], OB_BLOCK_FLUSH);
	CHECK_EQUAL(asked.operations[1], OB_BLOCK_WRITE);
	asked.flush_error = -ENOSPC;
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, 0, buffer, sizeof(buffer)), -ENOSPC);
	CHECK_EQUAL(asked.count, 3);
	/* The disk has lost data. A later success of the program does not change that. */
	asked.flush_error = 0;
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), -ENOSPC);
	CHECK_EQUAL(asked.count, 3);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, IMAGE_SIZE, buffer, sizeof(buffer)), -EIO);
	CHECK_EQUAL(asked.count, 3);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK(ob_platform_disk_withdraw(mock_host, atoi(number)));
}

void test_durability(void)
{
	test_flush();
	test_lost();
	test_durable_zeroes(OB_BLOCK_WRITE_ZEROES);
	test_durable_zeroes(OB_BLOCK_ALLOCATE_ZEROES);
	test_zeroes();
	test_flush_write();
}
