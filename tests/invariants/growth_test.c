// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory starts small at low physical addresses, grows up to its ceiling, and ends there (V13).
 * Arguments: the ceiling and the size of a file to write to a tmpfs, in MB; "fits" or "full", which
 * is what must happen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../library/client.h"

#define MB (1ul << 20)
#define FIRST_FRAME 4096		/* 16 MB */
#define MOST_AT_BOOT (32 * MB)

static char block[MB], got[MB];

static void boot(uint64_t megabytes)
{
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = 2,
		.memory = megabytes * MB,
		.log_level = OB_LOG_DEFAULT,
	};

	CHECK_EQUAL(ob_boot(&config), 0);
	CHECK(!ob_sys_mkdir("/proc", 0755) || errno == EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	OK(ob_sys_mkdir("/tmpfs", 0755));
	OK(ob_sys_mount("none", "/tmpfs", "tmpfs", 0, "size=1g"));
}

/*
 * The number behind the last occurrence of a word in a file of /proc; each zone has one, and ours
 * is the last that is not empty.
 */
static long number_in(const char *path, const char *word)
{
	static char text[65536];
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
	size_t length = 0;
	long bytes, number = -1;

	while ((bytes = OK(ob_sys_read(fd, text + length, sizeof(text) - 1 - length))) > 0)
		length += (size_t)bytes;
	text[length] = '\0';
	OK(ob_sys_close(fd));
	for (char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
		long value = strtol(at + strlen(word), NULL, 10);

		if (value)
			number = value;
	}
	return number;
}

static uint64_t memory_present(void)
{
	return (uint64_t)number_in("/proc/zoneinfo", "present") * 4096;
}

/*
 * What Linux sizes its limits by (tmpfs, dirty pages, TCP): the ceiling, less what Linux needs for
 * itself, before memory grows and afterwards.
 */
static void check_total(uint64_t ceiling)
{
	uint64_t total = (uint64_t)number_in("/proc/meminfo", "MemTotal:") * 1024;

	CHECK(total <= ceiling && total >= ceiling - ceiling / 8);
}

/* Writes until it is done or there is no room. Returns what was written. */
static uint64_t write_file(int fd, uint64_t size)
{
	for (uint64_t done = 0; done < size; done += MB) {
		long bytes;

		memset(block, (int)(done / MB) + 1, MB);
		bytes = ob_sys_pwrite64(fd, block, MB, (int64_t)done);
		if (bytes == -1)
			CHECK(errno == ENOSPC || errno == ENOMEM);
		if (bytes != MB)
			return done;
	}
	return size;
}

static void check_file(int fd, uint64_t size)
{
	for (uint64_t done = 0; done < size; done += MB) {
		memset(block, (int)(done / MB) + 1, MB);
		CHECK_EQUAL(OK(ob_sys_pread64(fd, got, MB, (int64_t)done)), MB);
		CHECK(!memcmp(block, got, MB));
	}
}

int main(int count, char **arguments)
{
	uint64_t ceiling, size, written;
	bool fits;
	int fd;

	CHECK_EQUAL(count, 4);
	ceiling = (uint64_t)atol(arguments[1]) * MB;
	size = (uint64_t)atol(arguments[2]) * MB;
	fits = !strcmp(arguments[3], "fits");
	boot(ceiling / MB);
	CHECK_EQUAL(number_in("/proc/zoneinfo", "start_pfn:"), FIRST_FRAME);
	CHECK(memory_present() <= MOST_AT_BOOT);
	CHECK(number_in("/proc/meminfo", "MemFree:") * 1024 < (long)MOST_AT_BOOT);
	check_total(ceiling);
	for (int round = 0; round < 2; round++) {
		fd = (int)OK(
			ob_sys_openat(AT_FDCWD, "/tmpfs/big", O_CREAT | O_RDWR | O_EXCL, 0644));
		written = write_file(fd, size);
		CHECK(fits ? written == size : written < size);
		/* A quarter of a small ceiling is the least that a file must get. */
		CHECK(written >= (fits ? size : ceiling / 4));
		check_file(fd, written);
		/*
		 * First of all room: while the file takes all that there is, even a path can be too
		 * much.
		 */
		OK(ob_sys_ftruncate(fd, 0));
		OK(ob_sys_close(fd));
		OK(ob_sys_unlink("/tmpfs/big"));
		printf("%lu MB written, %lu MB present\n", written / MB, memory_present() / MB);
		CHECK(written <= memory_present() && memory_present() <= ceiling);
		check_total(ceiling);
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
