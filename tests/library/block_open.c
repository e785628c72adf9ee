// SPDX-License-Identifier: GPL-2.0-only
/* Tests of the POSIX platform's disks: opening, locks, and access. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block_bed.h"

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

/* Locks a byte as QEMU does, or tests its lock. True: another description has locked the byte. */
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

/* Opens "/dev/fd/N" of an open file as a disk. */
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

	/* Another user of the open file sets O_APPEND later. Linux 6.9 can write in place. */
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

void test_open(const char *directory)
{
	test_open_errors(directory);
	test_size();
	test_lock();
	test_lock_of_qemu();
	test_permission();
	test_read_only();
	test_descriptor();
	test_descriptor_flags();
	test_same_descriptor();
}
