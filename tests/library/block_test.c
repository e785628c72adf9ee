// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the block part of the POSIX platform without a kernel: opening and
 * locking, every operation, errors, and many requests in flight, checked byte by byte
 * against a model. Arguments: a directory for the images, and optionally a block device
 * with sectors of 4096 bytes whose contents may be lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/platform.h>

#include "check.h"
#include "mock_kernel.h"
#include "threads.h"

#define IMAGE_SIZE (4ul << 20)

static char image[4096];

/*
 * The platform's system calls come by here (ld --wrap), so that flushes and durable writes can
 * fail as on a host that has lost data: once, with EIO.
 */
static struct {
	uint32_t lost;		/* the next flush or durable write gets the error */
	uint32_t held;		/* the next flush waits until another one has succeeded */
	uint32_t calls, succeeded;
} syncs;

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

static void make_image(off_t size)
{
	int fd = open(image, O_RDWR | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	CHECK_EQUAL(ftruncate(fd, size), 0);
	close(fd);
}

static int open_image(uint32_t flags, struct ob_block_info *info)
{
	int disk = ob_host_block_open(mock_host, image, flags, info);

	CHECK(disk >= 0);
	return disk;
}

/* Waits for a request and gives it back; others that complete stay on `done`. */
static struct ob_block_request *done;

static struct ob_block_request *next_completed(void)
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

/* Submits one request and waits for it. */
static int run(struct ob_block_request *request)
{
	request->result = 12345;
	if (!ob_host_block_submit(mock_host, request))
		CHECK(next_completed() == request);
	return request->result;
}

static int transfer(int disk, uint32_t operation, uint64_t offset, void *buffer, uint64_t length)
{
	struct ob_block_segment segment = { buffer, length };
	struct ob_block_request request = {
		.disk = (uint32_t)disk, .operation = operation, .offset = offset,
		.length = length, .segment_count = 1, .segments = &segment,
	};

	return run(&request);
}

static int range(int disk, uint32_t operation, uint64_t offset, uint64_t length)
{
	struct ob_block_request request = {
		.disk = (uint32_t)disk, .operation = operation, .offset = offset, .length = length,
	};

	return run(&request);
}

static void test_open_errors(const char *directory)
{
	struct ob_block_info info;
	char path[4200];

	CHECK_EQUAL(ob_host_block_open(mock_host, directory, 0, &info), -EISDIR);
	CHECK_EQUAL(ob_host_block_open(mock_host, "", 0, &info), -ENOENT);
	CHECK_EQUAL(ob_host_block_open(mock_host, "/dev/null", 0, &info), -ENOTBLK);
	snprintf(path, sizeof(path), "%s/none", directory);
	CHECK_EQUAL(ob_host_block_open(mock_host, path, 0, &info), -ENOENT);
	snprintf(path, sizeof(path), "%s/fifo", directory);
	CHECK_EQUAL(mkfifo(path, 0600), 0);
	CHECK_EQUAL(ob_host_block_open(mock_host, path, 0, &info), -ENOTBLK);
	CHECK_EQUAL(unlink(path), 0);
}

static void test_size(void)
{
	struct ob_block_info info;
	int disk;

	make_image(IMAGE_SIZE + 100);
	disk = open_image(0, &info);
	CHECK_EQUAL(info.size, IMAGE_SIZE);
	CHECK_EQUAL(info.sector_size, 512);
	CHECK_EQUAL(info.read_only, 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
	make_image(0);
	disk = open_image(0, &info);
	CHECK_EQUAL(info.size, 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

static void test_lock(void)
{
	struct ob_block_info info;
	int disk, other;
	pid_t child;

	make_image(IMAGE_SIZE);
	disk = open_image(0, &info);
	CHECK_EQUAL(ob_host_block_open(mock_host, image, 0, &info), -EBUSY);
	CHECK_EQUAL(ob_host_block_open(mock_host, image, OB_BLOCK_READ_ONLY, &info), -EBUSY);
	other = open_image(OB_BLOCK_NO_LOCK, &info);
	ob_host_block_close(mock_host, (uint32_t)other);

	/* A child of fork() that lives on does not keep the lock. */
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	ob_host_block_close(mock_host, (uint32_t)disk);
	disk = open_image(OB_BLOCK_READ_ONLY, &info);
	other = open_image(OB_BLOCK_READ_ONLY, &info);
	CHECK_EQUAL(ob_host_block_open(mock_host, image, 0, &info), -EBUSY);
	ob_host_block_close(mock_host, (uint32_t)disk);
	ob_host_block_close(mock_host, (uint32_t)other);
	disk = open_image(0, &info);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK(waitpid(child, NULL, 0) == child);
}

/* Asks who has a byte, or locks it, as QEMU does. Returns whether somebody has it. */
static bool byte_lock(int fd, int command, short type, off_t byte)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	CHECK_EQUAL(fcntl(fd, command, &lock), 0);
	return lock.l_type != F_UNLCK;
}

/* Somebody has these bytes: what opening says. They are given back. */
static int open_beside(const int *bytes, uint32_t flags)
{
	int fd = open(image, O_RDWR), disk;
	struct ob_block_info info;

	CHECK(fd >= 0);
	for (; *bytes; bytes++)
		byte_lock(fd, F_OFD_SETLK, F_RDLCK, *bytes);
	disk = ob_host_block_open(mock_host, image, flags, &info);
	if (disk >= 0)
		ob_host_block_close(mock_host, (uint32_t)disk);
	close(fd);
	return disk < 0 ? disk : 0;
}

static void test_lock_of_qemu(void)
{
	static const int writer[] = { 100, 101, 103, 201, 203, 0 },
			 sharing_writer[] = { 100, 101, 0 }, reader[] = { 100, 201, 203, 0 };
	static const int forced_reader[] = { 100, 0 }, alone[] = { 200, 0 };
	struct ob_block_info info;
	int disk, fd;

	make_image(IMAGE_SIZE);
	CHECK_EQUAL(open_beside(writer, 0), -EBUSY);
	CHECK_EQUAL(open_beside(writer, OB_BLOCK_READ_ONLY), -EBUSY);
	CHECK_EQUAL(open_beside(writer, OB_BLOCK_NO_LOCK), 0);
	CHECK_EQUAL(open_beside(sharing_writer, 0), -EBUSY);
	CHECK_EQUAL(open_beside(sharing_writer, OB_BLOCK_READ_ONLY), -EBUSY);
	CHECK_EQUAL(open_beside(reader, 0), -EBUSY);
	CHECK_EQUAL(open_beside(reader, OB_BLOCK_READ_ONLY), 0);
	CHECK_EQUAL(open_beside(forced_reader, 0), 0);
	CHECK_EQUAL(open_beside(alone, OB_BLOCK_READ_ONLY), -EBUSY);

	fd = open(image, O_RDWR);
	CHECK(fd >= 0);
	for (uint32_t flags = 0; flags <= OB_BLOCK_READ_ONLY; flags++) {
		disk = open_image(flags, &info);
		for (const int *byte = writer; *byte; byte++)
			CHECK_EQUAL(byte_lock(fd, F_OFD_GETLK, F_WRLCK, *byte),
				    flags == 0 || (*byte != 101 && *byte != 103));
		CHECK(!byte_lock(fd, F_OFD_GETLK, F_WRLCK, 200));
		ob_host_block_close(mock_host, (uint32_t)disk);
		for (const int *byte = writer; *byte; byte++)
			CHECK(!byte_lock(fd, F_OFD_GETLK, F_WRLCK, *byte));
	}
	close(fd);
}

/* Opens as a user without rights. Root gets no such errors, so a child gives up its rights. */
static int open_as_nobody(void)
{
	struct ob_block_info info;

	if (geteuid() == 0 && (setegid(65534) || seteuid(65534)))
		return -1;
	return ob_host_block_open(mock_host, image, 0, &info);
}

static int exit_status_of(int (*fn)(void), int wanted)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		int got = fn();

		if (got != wanted)
			fprintf(stderr, "got %d, not %d\n", got, wanted);
		_exit(got != wanted);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void test_permission(void)
{
	make_image(IMAGE_SIZE);
	CHECK_EQUAL(chmod(image, 0444), 0);
	CHECK_EQUAL(exit_status_of(open_as_nobody, -EROFS), 0);
	CHECK_EQUAL(chmod(image, 0), 0);
	CHECK_EQUAL(exit_status_of(open_as_nobody, -EACCES), 0);
	CHECK_EQUAL(chmod(image, 0644), 0);
}

static void test_read_only(void)
{
	struct ob_block_info info;
	char buffer[512] = { 0 };
	int disk;

	make_image(IMAGE_SIZE);
	disk = open_image(OB_BLOCK_READ_ONLY, &info);
	CHECK_EQUAL(info.read_only, 1);
	CHECK_EQUAL(info.can_discard, 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, 0, buffer, 512), 0);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_WRITE, 0, buffer, 512), -EROFS);
	CHECK_EQUAL(range(disk, OB_BLOCK_DISCARD, 0, 4096), -EROFS);
	CHECK_EQUAL(range(disk, OB_BLOCK_WRITE_ZEROES, 0, 4096), -EROFS);
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
}

/* As another program would, in a child. */
static int lock_for_writing(void)
{
	return flock(open(image, O_RDWR), LOCK_EX | LOCK_NB);
}

/* "/dev/fd/N" is what is open already: its name may be gone, and its access counts. */
static void test_descriptor(void)
{
	struct ob_block_info info;
	int ends[2], reader, both, disk;
	char name[32];

	make_image(IMAGE_SIZE);
	both = open(image, O_RDWR);
	reader = open(image, O_RDONLY);
	CHECK(both >= 0 && reader >= 0);
	CHECK_EQUAL(unlink(image), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", both);
	disk = ob_host_block_open(mock_host, name, 0, &info);
	CHECK(disk >= 0);
	CHECK_EQUAL(info.size, IMAGE_SIZE);
	snprintf(name, sizeof(name), "/dev/fd/%d", reader);
	CHECK_EQUAL(ob_host_block_open(mock_host, name, OB_BLOCK_READ_ONLY, &info), -EBUSY);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK_EQUAL(fcntl(both, F_GETFD), 0);
	CHECK_EQUAL(ob_host_block_open(mock_host, name, 0, &info), -EROFS);
	disk = ob_host_block_open(mock_host, name, OB_BLOCK_READ_ONLY, &info);
	CHECK(disk >= 0);
	CHECK_EQUAL(info.size, IMAGE_SIZE);
	ob_host_block_close(mock_host, (uint32_t)disk);
	close(reader);
	close(both);
	CHECK_EQUAL(ob_host_block_open(mock_host, name, OB_BLOCK_READ_ONLY, &info), -EBADF);
	CHECK_EQUAL(pipe(ends), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
	CHECK_EQUAL(ob_host_block_open(mock_host, name, OB_BLOCK_READ_ONLY, &info), -ENOTBLK);
	close(ends[0]);
	close(ends[1]);
}

/* What "/dev/fd/N" of an open file says. */
static int open_number(int fd, uint32_t flags)
{
	struct ob_block_info info;
	char name[32];

	snprintf(name, sizeof(name), "/dev/fd/%d", fd);
	return ob_host_block_open(mock_host, name, flags, &info);
}

static int open_with(int open_flags, uint32_t flags)
{
	int fd = open(image, open_flags), disk;

	CHECK(fd >= 0);
	disk = open_number(fd, flags);
	if (disk >= 0)
		ob_host_block_close(mock_host, (uint32_t)disk);
	close(fd);
	return disk < 0 ? disk : 0;
}

/* Flags with which the host would write elsewhere, or refuse what a disk allows. */
static void test_descriptor_flags(void)
{
	char wanted[4096], got[4096];
	int fd, disk, error;

	make_image(IMAGE_SIZE);
	CHECK_EQUAL(open_with(O_RDWR | O_APPEND, 0), -EINVAL);
	CHECK_EQUAL(open_with(O_RDONLY | O_APPEND, OB_BLOCK_READ_ONLY), -EINVAL);
	CHECK_EQUAL(open_with(O_PATH, OB_BLOCK_READ_ONLY), -EBADF);
	CHECK_EQUAL(open_with(O_WRONLY, 0), -EACCES);
	CHECK_EQUAL(open_with(O_RDWR | O_SYNC, 0), 0);
	fd = open(image, O_RDWR | O_DIRECT);
	if (fd >= 0) {
		CHECK_EQUAL(open_number(fd, 0), -EINVAL);
		close(fd);
	}

	/* Set later, by somebody who has the same open file. Linux 6.9 can write in place. */
	fd = open(image, O_RDWR);
	disk = open_number(fd, 0);
	CHECK(disk >= 0);
	CHECK_EQUAL(fcntl(fd, F_SETFL, O_APPEND), 0);
	memset(wanted, 'a', sizeof(wanted));
	error = transfer(disk, OB_BLOCK_WRITE, 8192, wanted, sizeof(wanted));
	CHECK(error == 0 || error == -EIO);
	CHECK_EQUAL(pread(fd, got, sizeof(got), 8192), sizeof(got));
	CHECK(error || !memcmp(wanted, got, sizeof(got)));
	CHECK_EQUAL(lseek(fd, 0, SEEK_END), IMAGE_SIZE);
	ob_host_block_close(mock_host, (uint32_t)disk);
	close(fd);
}

/* Whether another open file could be locked as a reader's. */
static bool is_free(void)
{
	int fd = open(image, O_RDONLY);
	bool locked = !flock(fd, LOCK_SH | LOCK_NB);

	close(fd);
	return locked;
}

/* One open file twice: the host would grant both locks. */
static void test_same_descriptor(void)
{
	struct rlimit limit = { IMAGE_SIZE - 1, RLIM_INFINITY };
	int fd, disk, other;

	make_image(IMAGE_SIZE);
	fd = open(image, O_RDWR);
	disk = open_number(fd, 0);
	CHECK(disk >= 0);
	CHECK_EQUAL(open_number(fd, 0), -EBUSY);
	CHECK_EQUAL(open_number(fd, OB_BLOCK_READ_ONLY), -EBUSY);
	other = open_number(fd, OB_BLOCK_NO_LOCK);
	CHECK(other >= 0);
	ob_host_block_close(mock_host, (uint32_t)other);
	CHECK(!is_free());
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK(is_free());

	/* Two readers: each keeps out writers. */
	disk = open_number(fd, OB_BLOCK_READ_ONLY);
	other = open_number(fd, OB_BLOCK_READ_ONLY);
	CHECK(disk >= 0 && other >= 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK_EQUAL(open_with(O_RDWR, 0), -EBUSY);
	CHECK_EQUAL(exit_status_of(lock_for_writing, -1), 0);
	ob_host_block_close(mock_host, (uint32_t)other);
	CHECK_EQUAL(exit_status_of(lock_for_writing, 0), 0);

	/* A disk that cannot be opened leaves no lock behind: here because of RLIMIT_FSIZE. */
	CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQUAL(open_number(fd, 0), -EFBIG);
	CHECK(is_free());
	disk = open_number(fd, OB_BLOCK_READ_ONLY);
	CHECK(disk >= 0);
	ob_host_block_close(mock_host, (uint32_t)disk);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
	close(fd);
}

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

static void check_bytes(int disk, uint64_t offset, uint64_t length, char wanted)
{
	char *buffer = malloc(length);

	CHECK(buffer);
	memset(buffer, wanted + 1, length);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_READ, offset, buffer, length), 0);
	for (uint64_t i = 0; i < length; i++)
		CHECK_EQUAL(buffer[i], wanted);
	free(buffer);
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
	struct ob_platform_served served = {
		.perform = note, .closed = note_nothing, .size = IMAGE_SIZE, .sector_size = 512,
	};
	struct ob_block_info info;
	char number[16], buffer[512];
	int disk;

	snprintf(number, sizeof(number), "%d", ob_platform_serve(mock_host, &served));
	disk = ob_host_block_open(mock_host, number, OB_BLOCK_SERVED, &info);
	CHECK(disk >= 0 && info.can_flush_write);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, 0, buffer, sizeof(buffer)), 0);
	CHECK_EQUAL(asked.count, 2);
	CHECK_EQUAL(asked.operations[0], OB_BLOCK_FLUSH);
	CHECK_EQUAL(asked.operations[1], OB_BLOCK_WRITE);
	asked.flush_error = -ENOSPC;
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, 0, buffer, sizeof(buffer)), -ENOSPC);
	CHECK_EQUAL(asked.count, 3);
	/* The disk has lost data, whatever the program says later. */
	asked.flush_error = 0;
	CHECK_EQUAL(range(disk, OB_BLOCK_FLUSH, 0, 0), -ENOSPC);
	CHECK_EQUAL(asked.count, 3);
	CHECK_EQUAL(transfer(disk, OB_BLOCK_FLUSH_WRITE, IMAGE_SIZE, buffer, sizeof(buffer)), -EIO);
	CHECK_EQUAL(asked.count, 3);
	ob_host_block_close(mock_host, (uint32_t)disk);
	CHECK(ob_platform_serve_done(mock_host, atoi(number)));
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
	struct ob_platform_served served = {
		.perform = meet, .closed = leave, .size = IMAGE_SIZE, .sector_size = 512,
	};
	struct ob_block_request requests[TOGETHER];
	struct ob_block_info info;
	char number[16];
	int disk;

	CHECK_EQUAL(workers(), 0);
	snprintf(number, sizeof(number), "%d", ob_platform_serve(mock_host, &served));
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
	CHECK(ob_platform_serve_done(mock_host, atoi(number)));
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
	const char *directory = arguments[1];

	CHECK(count == 2 || count == 3);
	snprintf(image, sizeof(image), "%s/disk.img", directory);
	CHECK_EQUAL(ob_platform_start(mock_host, NULL, NULL), 0);
	test_open_errors(directory);
	test_size();
	test_lock();
	test_lock_of_qemu();
	test_permission();
	test_read_only();
	test_descriptor();
	test_descriptor_flags();
	test_same_descriptor();
	test_bounds();
	test_host_error();
	test_operations();
	test_ahead();
	test_many_segments();
	test_many_disks();
	test_load();
	test_many_submitters();
	test_flush();
	test_lost();
	test_zeroes();
	test_flush_write();
	test_workers();
	if (count == 3)
		test_device(arguments[2]);
	ob_platform_stop(mock_host);
	CHECK_EQUAL(unlink(image), 0);
	return 0;
}
