// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's mappings of the client window are a cache of the kernel's page tables, and no more
 * (V12): what the kernel takes away is gone, what it protects is protected, what it cleans is
 * dirtied again by the next write. The process ends without a halt: what is in the image came by
 * msync. Argument: an ext4 image, which has a file /by-mapping then.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../library/client.h"

#define PAGE 4096ul
#define READ_WRITE (PROT_READ | PROT_WRITE)

static char *map(size_t length, int protection, int flags, int fd)
{
	char *address = ob_sys_mmap(NULL, length, protection, flags, fd, 0);

	CHECK(address != MAP_FAILED);
	return address;
}

static void unmapped_is_gone(void)
{
	char *memory = map(3 * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	memset(memory, 'x', 3 * PAGE);
	OK(ob_sys_munmap(memory + PAGE, PAGE));
	CHECK(client_can_read(memory) && client_can_write(memory + 2 * PAGE));
	CHECK(!client_can_read(memory + PAGE) && !client_can_write(memory + PAGE));
	OK(ob_sys_munmap(memory, 3 * PAGE));
	CHECK(!client_can_read(memory) && !client_can_read(memory + 2 * PAGE));
}

static void protected_is_protected(void)
{
	char *memory = map(2 * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	memset(memory, 'x', 2 * PAGE);
	OK(ob_sys_mprotect(memory, PAGE, PROT_READ));
	CHECK(client_can_read(memory) && !client_can_write(memory) &&
	      client_can_write(memory + PAGE));
	OK(ob_sys_mprotect(memory, PAGE, PROT_NONE));
	CHECK(!client_can_read(memory) && !client_can_write(memory));
	OK(ob_sys_mprotect(memory, PAGE, READ_WRITE));
	CHECK(client_can_write(memory));
	CHECK_EQUAL(memory[100], 'x');
	OK(ob_sys_munmap(memory, 2 * PAGE));
}

static void moved_is_moved(void)
{
	char *memory = map(2 * PAGE, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *moved;

	memset(memory, 'm', 2 * PAGE);
	moved = ob_sys_mremap(memory, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE, NULL);
	CHECK(moved != MAP_FAILED);
	CHECK_EQUAL(moved[2 * PAGE - 1], 'm');
	CHECK_EQUAL(moved[2 * PAGE], 0);
	CHECK(moved == memory || !client_can_read(memory));
	OK(ob_sys_munmap(moved, 64 * PAGE));
}

static void cut_off_is_gone(void)
{
	int fd = (int)OK(ob_sys_memfd_create("m", 0));
	char *memory, *private;

	OK(ob_sys_ftruncate(fd, 2 * PAGE));
	memory = map(2 * PAGE, READ_WRITE, MAP_SHARED, fd);
	private = map(2 * PAGE, READ_WRITE, MAP_PRIVATE, fd);
	memset(memory, 's', 2 * PAGE);
	CHECK(client_can_read(private + PAGE));
	OK(ob_sys_ftruncate(fd, PAGE));
	CHECK(client_can_write(memory) && !client_can_read(memory + PAGE) &&
	      !client_can_read(private + PAGE));
	OK(ob_sys_ftruncate(fd, 2 * PAGE));
	CHECK_EQUAL(memory[PAGE], 0);
	OK(ob_sys_munmap(memory, 2 * PAGE));
	OK(ob_sys_munmap(private, 2 * PAGE));
	OK(ob_sys_close(fd));
}

/* Two mappings of one page, a copy of it, and the file: each sees what it should. */
static void coherent(int fd)
{
	char *one, *two, *copy, text[8];

	OK(ob_sys_ftruncate(fd, PAGE));
	one = map(PAGE, READ_WRITE, MAP_SHARED, fd);
	two = map(PAGE, READ_WRITE, MAP_SHARED, fd);
	copy = map(PAGE, READ_WRITE, MAP_PRIVATE, fd);
	for (int i = 0; i < 200; i++) {
		one[0] = (char)i;
		CHECK_EQUAL(two[0], (char)i);
		CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 1, 0)), 1);
		CHECK_EQUAL(text[0], (char)i);
		text[0] = (char)(i + 1);
		CHECK_EQUAL(OK(ob_sys_pwrite64(fd, text, 1, 0)), 1);
		CHECK_EQUAL(one[0], (char)(i + 1));
		if (i < 100)
			CHECK_EQUAL(copy[0], (char)(i + 1));
		if (i == 100)
			copy[0] = 'c';
		if (i >= 100)
			CHECK_EQUAL(copy[0], 'c');
	}
	OK(ob_sys_munmap(one, PAGE));
	OK(ob_sys_munmap(two, PAGE));
	OK(ob_sys_munmap(copy, PAGE));
}

/* Written back pages are read-only until the next write, which must be noticed. */
static void written_back(int fd)
{
	char *memory;

	OK(ob_sys_ftruncate(fd, 2 * PAGE));
	memory = map(2 * PAGE, READ_WRITE, MAP_SHARED, fd);
	for (int i = 0; i < 5; i++) {
		snprintf(memory, PAGE, "round %d of msync", i);
		snprintf(memory + PAGE, PAGE, "second page, round %d", i);
		OK(ob_sys_msync(memory, 2 * PAGE, MS_SYNC));
	}
}

int main(int count, char **arguments)
{
	int fd;

	CHECK_EQUAL(count, 2);
	client_catch_faults();
	client_boot(2);
	client_tmpfs("/tmpfs");
	client_mount(arguments[1], "ext4", "/disk");
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/by-mapping", O_RDWR | O_CREAT, 0644));
	for (int i = 0; i < 100; i++) {
		unmapped_is_gone();
		protected_is_protected();
		moved_is_moved();
		cut_off_is_gone();
	}
	coherent((int)OK(ob_sys_openat(AT_FDCWD, "/tmpfs/f", O_RDWR | O_CREAT, 0644)));
	coherent(fd);
	written_back(fd);
	_exit(0);
}
