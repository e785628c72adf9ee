// SPDX-License-Identifier: GPL-2.0-only
/* Files that are mapped, and memory that calls transfer files from and to. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "semantics.h"

static char *map_file(int fd, size_t size, int flags)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Each writes into the other's mapping, and into the file. */
static void write_in_turns(int fd, char *memory)
{
	volatile int *turn = (volatile int *)(memory + 3 * PAGE);
	char *again = map_file(fd, 4 * PAGE, MAP_SHARED);
	char text[16];

	wait_for_word(turn, 1);
	CHECK(!strcmp(memory, "mapped") && !strcmp(again, "mapped"));
	CHECK(pread(fd, text, 7, 0) == 7 && !strcmp(text, "mapped"));
	CHECK(pwrite(fd, "written", 8, (off_t)PAGE) == 8);
	*turn = 2;
	wait_for_word(turn, 3);
	CHECK(!strcmp(again + PAGE, "third") && !munmap(again, 4 * PAGE));
	_exit(0);
}

void shared_files(void)
{
	int fd = unnamed_file(4 * PAGE), other = unnamed_file(0);
	char *memory = map_file(fd, 4 * PAGE, MAP_SHARED);
	volatile int *turn = (volatile int *)(memory + 3 * PAGE);
	pid_t child = fork_or_die();
	off_t offset = 0;
	char text[16];

	if (!child)
		write_in_turns(fd, memory);
	strcpy(memory, "mapped");
	*turn = 1;
	wait_for_word(turn, 2);
	CHECK(!strcmp(memory + PAGE, "written"));
	strcpy(memory + PAGE, "third");
	*turn = 3;
	wait_for_success(child);
	CHECK(!msync(memory, 4 * PAGE, MS_SYNC) && !msync(memory, PAGE, MS_ASYNC));
	CHECK(msync(memory + 1, PAGE, MS_SYNC) == -1 && errno == EINVAL);
	/* After the write-back, a page is clean: the next write must count, too. */
	strcpy(memory, "again");
	CHECK(!fsync(fd) && pread(fd, text, 6, 0) == 6 && !strcmp(text, "again"));
	CHECK(sendfile(other, fd, &offset, 2 * PAGE) == 2 * PAGE);
	CHECK(pread(other, text, 6, (off_t)PAGE) == 6 && !strcmp(text, "third"));
	/* A file that is mapped is read into its own mapping. */
	CHECK(pread(fd, memory + 2 * PAGE - 2, 8, 0) == 8);
	CHECK(!memcmp(memory + 2 * PAGE - 2, "again", 6));
}

void private_files(void)
{
	int fd = unnamed_file(4 * PAGE);
	char *memory = map_file(fd, 4 * PAGE, MAP_PRIVATE), text[16];
	pid_t child;

	CHECK(pwrite(fd, "first", 6, 0) == 6 && !strcmp(memory, "first"));
	/* Unchanged pages follow the file. */
	CHECK(pwrite(fd, "second", 7, 0) == 7 && !strcmp(memory, "second"));
	memory[100] = 'x';
	CHECK(pwrite(fd, "third", 6, 0) == 6 && !strcmp(memory, "second"));
	CHECK(pread(fd, text, 1, 100) == 1 && !text[0]);
	/* Also those beside a changed one. */
	CHECK(pwrite(fd, "beside", 7, PAGE) == 7 && !strcmp(memory + PAGE, "beside"));
	child = fork_or_die();
	if (!child) {
		CHECK(!strcmp(memory, "second") && memory[100] == 'x');
		strcpy(memory, "childs");
		_exit(0);
	}
	wait_for_success(child);
	CHECK(!strcmp(memory, "second"));
	CHECK(!madvise(memory, PAGE, MADV_DONTNEED) && !strcmp(memory, "third") && !memory[100]);
	/* Written to by the kernel before the program has touched it. */
	CHECK(pread(fd, memory + 2 * PAGE, 6, 0) == 6 && !strcmp(memory + 2 * PAGE, "third"));
	CHECK(pread(fd, text, 1, 2 * (off_t)PAGE) == 1 && !text[0]);
}

static void check_beyond_end(int fd, int flags)
{
	char *memory;
	struct fault fault;
	int null = open("/dev/null", O_WRONLY);

	CHECK(!ftruncate(fd, 3 * (off_t)PAGE));
	memory = map_file(fd, 3 * PAGE, flags);
	memset(memory, 'a', 3 * PAGE);
	CHECK(!ftruncate(fd, (off_t)PAGE + 100));
	/* The rest of the last page is zero; a page that no file is behind is none. */
	CHECK_EQUAL(touch(memory + PAGE, false).number, 0);
	if (flags == MAP_SHARED)
		CHECK(memory[PAGE + 99] == 'a' && !memory[PAGE + 100]);
	fault = touch(memory + 2 * PAGE + 5, false);
	CHECK(fault.number == SIGBUS && fault.code == BUS_ADRERR);
	CHECK(fault.address == memory + 2 * PAGE + 5);
	CHECK_EQUAL(touch(memory + 2 * PAGE, true).number, SIGBUS);
	CHECK(pread(fd, memory + 2 * PAGE, 1, 0) == -1 && errno == EFAULT);
	/* /dev/null looks at nothing; a pipe does. */
	CHECK(write(null, memory + 2 * PAGE, 1) == 1 && !close(null));
	CHECK(pwrite(fd, memory + 2 * PAGE - 4, 8, 0) == 4);
	/* It grows again. */
	CHECK(!ftruncate(fd, 3 * (off_t)PAGE));
	CHECK_EQUAL(touch(memory + 2 * PAGE, true).number, 0);
	CHECK(!munmap(memory, 3 * PAGE));
}

void truncated_files(void)
{
	int fd = unnamed_file(PAGE);

	check_beyond_end(fd, MAP_SHARED);
	check_beyond_end(fd, MAP_PRIVATE);
	CHECK(!close(fd));
	fd = memfd_create("memory", MFD_ALLOW_SEALING);
	check_beyond_end(fd, MAP_SHARED);
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
}

/* Direct I/O, and pages that a pipe takes from memory: the kernel keeps pages of the program. */
static void check_direct(int fd)
{
	char *memory = map(4 * PAGE, MAP_PRIVATE), *other = map(4 * PAGE, MAP_PRIVATE);
	pid_t child;

	for (size_t i = 0; i < 4 * PAGE; i++)
		memory[i] = (char)(i * 31 >> 3);
	CHECK_EQUAL(pwrite(fd, memory, 4 * PAGE, 0), 4 * PAGE);
	CHECK_EQUAL(pread(fd, other, 4 * PAGE, 0), 4 * PAGE);
	CHECK(!memcmp(memory, other, 4 * PAGE));
	/* Into pages that a child shares: only the reader's change. */
	memset(other, 'o', 4 * PAGE);
	child = fork_or_die();
	if (!child) {
		CHECK_EQUAL(pread(fd, other, 2 * PAGE, 0), 2 * PAGE);
		CHECK(!memcmp(memory, other, 2 * PAGE) && other[2 * PAGE] == 'o');
		_exit(0);
	}
	wait_for_success(child);
	for (size_t i = 0; i < 4 * PAGE; i++)
		CHECK_EQUAL(other[i], 'o');
	CHECK(!mprotect(other, PAGE, PROT_READ));
	CHECK(pread(fd, other, PAGE, 0) == -1 && errno == EFAULT);
}

static void check_pipe_of_pages(void)
{
	char *memory = map(2 * PAGE, MAP_PRIVATE), text[8];
	struct iovec part = { memory, 2 * PAGE };
	int ends[2];

	CHECK(!pipe(ends));
	strcpy(memory, "before");
	CHECK_EQUAL(vmsplice(ends[1], &part, 1, 0), 2 * PAGE);
	/* The pipe has the page, not a copy. */
	memcpy(memory, "later", 6);
	CHECK(read(ends[0], text, 6) == 6 && !strcmp(text, "later"));
}

void direct_io(void)
{
	char name[] = "./direct-XXXXXX";
	int fd = mkostemp(name, O_DIRECT);

	CHECK(fd >= 0 && !unlink(name));
	check_direct(fd);
	check_pipe_of_pages();
}
