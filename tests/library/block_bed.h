/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the tests of the platform's disks: an image, requests that are waited for, and
 * a host that loses data. Link with block_bed.c and -Wl,--wrap=syscall.
 */
#ifndef OUTBOARD_TESTS_BLOCK_BED_H
#define OUTBOARD_TESTS_BLOCK_BED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <outboard/platform_host.h>

#include "check.h"
#include "mock_kernel.h"

#define IMAGE_SIZE (4ul << 20)

/* The path of the image. */
extern char image[4096];

/*
 * The platform's system calls come by block_bed.c, so that flushes and durable writes can fail as
 * on a host that has lost data: once, with EIO.
 */
struct syncs {
	uint32_t lost;		/* the next flush or durable write gets the error */
	uint32_t held;		/* the next flush waits until another one has succeeded */
	uint32_t calls, succeeded;
};

extern struct syncs syncs;

/* An image of zeroes. */
void make_image(off_t size);
int open_image(uint32_t flags, struct ob_block_info *info);

/* Waits for a request, and takes it. */
struct ob_block_request *next_completed(void);

/* These submit a request, wait for it, and return its result. */
int run(struct ob_block_request *request);
int transfer(int disk, uint32_t operation, uint64_t offset, void *buffer, uint64_t length);
int range(int disk, uint32_t operation, uint64_t offset, uint64_t length);

/* All bytes of the range are `wanted`. */
void check_bytes(int disk, uint64_t offset, uint64_t length, char wanted);

/* Opening and locking. `directory`: for files. */
void test_open(const char *directory);
/* Flushes, durable writes, and disks that have lost data. */
void test_durability(void);

#endif
