// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bad pointers in every direction are EFAULT, and no byte beyond a border is touched (invariant
 * V10).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define NON_CANONICAL ((char *)0x8000000000000000ul)

#define EXPECT_EFAULT(call)                     \
	do {                                    \
		errno = 0;                      \
		CHECK_EQUAL(call, -1);          \
		CHECK_EQUAL(errno, EFAULT);     \
	} while (0)

static int file;
static char *border;		/* nothing may be accessed from here on */
static char *read_only;
static char *unmapped;

static void make_pointers(void)
{
	border = client_border();
	read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(read_only != MAP_FAILED);
	unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(unmapped != MAP_FAILED);
	munmap(unmapped, 4096);
}

static void kernel_writes(void)
{
	char *bad[] = {
		NULL, (char *)8, unmapped, border, read_only, NON_CANONICAL, (char *)-4096l
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT_EFAULT(ob_sys_pread64(file, bad[i], 100, 0));
		EXPECT_EFAULT(ob_sys_pread64(file, bad[i], 1, 0));
		EXPECT_EFAULT(ob_sys_uname((struct utsname *)bad[i]));
		EXPECT_EFAULT(ob_sys_fstat(file, (struct stat *)bad[i]));
		EXPECT_EFAULT(ob_sys_pipe2((int *)bad[i], 0));
		EXPECT_EFAULT(ob_sys_getcwd(bad[i], 100));
		EXPECT_EFAULT(ob_sys_clock_gettime(CLOCK_REALTIME, (struct timespec *)bad[i]));
	}
}

static void kernel_reads(void)
{
	char *bad[] = { NULL, (char *)8, unmapped, border, NON_CANONICAL, (char *)-4096l };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT_EFAULT(ob_sys_pwrite64(file, bad[i], 100, 0));
		EXPECT_EFAULT(ob_sys_openat(AT_FDCWD, bad[i], O_RDONLY, 0));
		EXPECT_EFAULT(ob_sys_mkdir(bad[i], 0755));
		EXPECT_EFAULT(ob_sys_nanosleep((struct timespec *)bad[i], NULL));
		EXPECT_EFAULT(ob_sys_writev(file, (struct iovec *)bad[i], 1));
		EXPECT_EFAULT(ob_sys_setxattr("/tmpfs/file", "user.a", bad[i], 10, 0));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct iovec vector = { bad[i], 10 };

		EXPECT_EFAULT(ob_sys_writev(file, &vector, 1));
		EXPECT_EFAULT(ob_sys_preadv(file, &vector, 1, 0, 0));
	}
}

/* Strings and buffers that end exactly at the border are good; those that cross it are not. */
static void at_the_border(void)
{
	static const char path[] = "/tmpfs/file";
	long length, fd;

	for (size_t shift = 0; shift < 16; shift++) {
		char *string = border - sizeof(path) - shift;

		memcpy(string, path, sizeof(path));
		memset(string + sizeof(path), 'x', shift);
		fd = OK(ob_sys_openat(AT_FDCWD, string, O_RDONLY, 0));
		OK(ob_sys_close(fd));
		memset(string, 'x', sizeof(path) + shift);
		EXPECT_EFAULT(ob_sys_openat(AT_FDCWD, string, O_RDONLY, 0));
	}
	CHECK_EQUAL(OK(ob_sys_pread64(file, border - 10, 10, 0)), 10);
	EXPECT_EFAULT(ob_sys_uname((struct utsname *)(border - 8)));
	/* The part that fits may be transferred; the returned length must be true. */
	memset(border - 10, 0, 10);
	length = ob_sys_pread64(file, border - 10, 20, 0);
	CHECK(length == -1 ? errno == EFAULT : length > 0 && length <= 10);
	for (long i = 0; i < length; i++)
		CHECK_EQUAL(border[i - 10], 'a');
	length = ob_sys_pwrite64(file, border - 10, 20, 0);
	CHECK(length == -1 ? errno == EFAULT : length >= 0 && length <= 10);
}

/* Its first call comes when all signals are blocked, as in threads of many programs. */
static void *with_signals_blocked(void *unused)
{
	kernel_writes();
	kernel_reads();
	return unused;
}

static void in_thread_with_signals_blocked(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, &before));
	CHECK(!pthread_create(&thread, NULL, with_signals_blocked, NULL));
	CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
	CHECK(!pthread_join(thread, NULL));
}

int main(void)
{
	char text[200];

	client_boot(0);
	client_tmpfs("/tmpfs");
	make_pointers();
	file = OK(ob_sys_openat(AT_FDCWD, "/tmpfs/file", O_RDWR | O_CREAT, 0644));
	memset(text, 'a', sizeof(text));
	CHECK_EQUAL(OK(ob_sys_write(file, text, sizeof(text))), sizeof(text));
	for (int i = 0; i < 50; i++) {
		kernel_writes();
		kernel_reads();
		at_the_border();
	}
	in_thread_with_signals_blocked();
	for (int i = 0; i < 4096; i++)
		CHECK_EQUAL(read_only[i], 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
