// SPDX-License-Identifier: GPL-2.0-only
/*
 * More mappings than the host has room for (V12): pages that are no neighbours are touched until
 * the host's limit is passed. Dropped pages come back with their contents, and at the limit
 * unmapped pages are gone all the same. Argument: the number of pages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../library/client.h"

#define PAGE 4096ul

/* Every second page of the mapping. */
static volatile long *page(char *memory, long index)
{
	return (volatile long *)(memory + (unsigned long)index * 2 * PAGE);
}

/* The kernel copies a module to new memory in another window before it looks at it. */
static void use_kernel_window(void)
{
	static char junk[1 << 20];

	CHECK_EQUAL(ob_sys_init_module(junk, sizeof(junk), ""), -1);
	CHECK_EQUAL(errno, ENOEXEC);
}

static void write_all(char *memory, long pages)
{
	for (long i = 0; i < pages; i++) {
		*page(memory, i) = i * 3 + 1;
		if (i % 500 == 0)
			use_kernel_window();
	}
}

static void check_all(char *memory, long pages)
{
	for (long i = 0; i < pages; i++)
		CHECK_EQUAL(*page(memory, i), i * 3 + 1);
}

/* Holes in the middle, made while the host has no room. */
static void punch(char *memory, long pages)
{
	for (long i = 0; i < pages; i += 1000) {
		OK(ob_sys_munmap((void *)page(memory, i), PAGE));
		CHECK(!client_can_read((char *)page(memory, i)));
	}
	for (long i = 0; i < pages; i++) {
		if (i % 1000)
			CHECK_EQUAL(*page(memory, i), i * 3 + 1);
		else
			CHECK(!client_can_read((char *)page(memory, i)));
	}
}

static char *map(long pages, int flags, int fd)
{
	char *memory = ob_sys_mmap(NULL, (size_t)pages * 2 * PAGE, PROT_READ | PROT_WRITE, flags,
				   fd, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

int main(int count, char **arguments)
{
	char *memory, *shared;
	long pages, got;
	int fd;

	CHECK_EQUAL(count, 2);
	pages = atol(arguments[1]);
	client_catch_faults();
	client_boot(2);
	memory = map(pages, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	write_all(memory, pages);
	check_all(memory, pages);
	punch(memory, pages);
	OK(ob_sys_munmap(memory, (size_t)pages * 2 * PAGE));
	/* The same with a file, so that both ways to a page can be compared. */
	fd = (int)OK(ob_sys_memfd_create("m", 0));
	OK(ob_sys_ftruncate(fd, pages * 2 * (long)PAGE));
	shared = map(pages, MAP_SHARED, fd);
	write_all(shared, pages);
	for (long i = 0; i < pages; i++) {
		CHECK_EQUAL(OK(ob_sys_pread64(fd, &got, sizeof(got), i * 2 * (long)PAGE)),
			    sizeof(got));
		CHECK_EQUAL(got, i * 3 + 1);
	}
	check_all(shared, pages);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
