// SPDX-License-Identifier: GPL-2.0-only
/* See block_bed.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "block_bed.h"

char image[4096];
struct syncs syncs;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
	bool syncs_data, fails = false;
	long arguments[6], result;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	syncs_data = number == SYS_fdatasync ||
		     (number == SYS_pwritev2 && (int)arguments[5] & RWF_DSYNC);
	if (syncs_data) {
		__atomic_add_fetch(&syncs.calls, 1, __ATOMIC_SEQ_CST);
		fails = __atomic_exchange_n(&syncs.lost, 0, __ATOMIC_SEQ_CST);
	}
	if (fails && __atomic_load_n(&syncs.held, __ATOMIC_SEQ_CST))
		while (!__atomic_load_n(&syncs.succeeded, __ATOMIC_SEQ_CST))
			sched_yield();
	if (fails) {
		errno = EIO;
		return -1;
	}
	result = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
				arguments[4], arguments[5]);
	if (syncs_data)
		__atomic_add_fetch(&syncs.succeeded, 1, __ATOMIC_SEQ_CST);
	return result;
}

void make_image(off_t size)
{
	int fd = open(image, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	CHECK_EQUAL(ftruncate(fd, size), 0);
	close(fd);
}

int open_image(uint32_t flags, struct ob_block_info *info)
{
	int disk = ob_host_block_open(mock_host, image, flags, info);

	CHECK(disk >= 0);
	return disk;
}

/* Requests that have completed and were not taken. */
static struct ob_block_request *done;

struct ob_block_request *next_completed(void)
{
	struct ob_block_request *request;

	while (!done) {
		uint32_t seen = __atomic_load_n(&mock.block_interrupts, __ATOMIC_SEQ_CST);

		done = ob_host_block_completed(mock_host);
		if (!done)
			ob_host_wait(mock_host, &mock.block_interrupts, seen, OB_FOREVER);
	}
	request = done;
	done = request->next;
	return request;
}

int run(struct ob_block_request *request)
{
	request->result = 12345;
	if (!ob_host_block_submit(mock_host, request))
		CHECK(next_completed() == request);
	return request->result;
}

int transfer(int disk, uint32_t operation, uint64_t offset, void *buffer, uint64_t length)
{
	struct ob_block_segment segment = { buffer, length };
	struct ob_block_request request = {
		.disk = (uint32_t)disk, .operation = operation, .offset = offset,
		.length = length, .segment_count = 1, .segments = &segment,
	};

	return run(&request);
}

int range(int disk, uint32_t operation, uint64_t offset, uint64_t length)
{
	struct ob_block_request request = {
		.disk = (uint32_t)disk, .operation = operation, .offset = offset, .length = length,
	};

	return run(&request);
}

void check_bytes(int disk, uint64_t offset, uint64_t length, char wanted)
{
	char *buffer = malloc(length);

	CHECK(buffer);
	memset(buffer, wanted + 1, length);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, offset, buffer, length), 0);
	for (uint64_t i = 0; i < length; i++)
		CHECK_EQUAL(buffer[i], wanted);
	free(buffer);
}
