// SPDX-License-Identifier: GPL-2.0-only
/*
 * A kernel on the mock platform: one host thread, no mapping, no service threads.
 *
 * usage: mock_test IMAGE CASE [FILE]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "entries.h"
#include "mock.h"

#define MB (1ul << 20)
#define KB (1ul << 10)

static struct ob_host *host;
static char block[MB], copy[MB];

#define CALL(number, a, b, c, d, e) \
	mock_call(host, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
/* A system call that succeeds. */
#define OK(number, a, b, c, d, e)					\
	({								\
		long ok_ = CALL(number, a, b, c, d, e);			\
		if (ok_ < 0) {						\
			fprintf(stderr, "%s:%d: " #number ": error %ld\n",	\
				__FILE__, __LINE__, ok_);		\
			_Exit(1);					\
		}							\
		ok_;							\
	})

static void start(const char *image, struct mock_options options)
{
	options.vcpus = options.vcpus ? options.vcpus : 1;
	options.log_level = 4;
	host = mock_new(image, &options);
	CHECK(host);
	CHECK_EQUAL(mock_boot(host), 0);
}

static void stop(void)
{
	CHECK_EQUAL(mock_halt(host), 0);
	mock_free(host);
}

static long host_threads(void)
{
	return count_entries("/proc/self/task") - 2;
}

static void mount_tmpfs(const char *directory, const char *options)
{
	OK(SYS_mkdir, directory, 0755, 0, 0, 0);
	OK(SYS_mount, "none", directory, "tmpfs", 0, options);
}

/* Writes a file, reads it again, renames it and removes it. */
static void work_on_file(const char *path, const char *other, unsigned long size)
{
	struct stat status;
	long fd;

	for (unsigned long i = 0; i < size; i++)
		block[i] = (char)(i * 31 >> 3);
	fd = OK(SYS_open, path, O_CREAT | O_RDWR | O_EXCL, 0600, 0, 0);
	CHECK_EQUAL(OK(SYS_write, fd, block, size, 0, 0), size);
	OK(SYS_fsync, fd, 0, 0, 0, 0);
	OK(SYS_close, fd, 0, 0, 0, 0);
	OK(SYS_rename, path, other, 0, 0, 0);
	fd = OK(SYS_open, other, O_RDONLY, 0, 0, 0);
	memset(copy, 0, size);
	CHECK_EQUAL(OK(SYS_read, fd, copy, size, 0, 0), size);
	CHECK(!memcmp(block, copy, size));
	OK(SYS_fstat, fd, &status, 0, 0, 0);
	CHECK_EQUAL(status.st_size, size);
	OK(SYS_close, fd, 0, 0, 0, 0);
	OK(SYS_unlink, other, 0, 0, 0, 0);
	CHECK_EQUAL(CALL(SYS_open, other, O_RDONLY, 0, 0, 0), -ENOENT);
}

static void sleep_for(long nanoseconds)
{
	struct timespec time = { nanoseconds / 1000000000, nanoseconds % 1000000000 };
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	OK(SYS_nanosleep, &time, NULL, 0, 0, 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >=
	      nanoseconds);
}

/* Files in the kernel's own memory, a use of vmalloc(), and calls that fail on this host. */
static void test_files(const char *image)
{
	uint32_t services;

	start(image, (struct mock_options){ .memory = 32 * MB });
	CHECK_EQUAL(host_threads(), 1);
	mount_tmpfs("/ram", NULL);
	work_on_file("/ram/a", "/ram/b", MB);
	/* A terminal has its buffer from vmalloc. */
	OK(SYS_mkdir, "/pts", 0755, 0, 0, 0);
	OK(SYS_mount, "none", "/pts", "devpts", 0, "ptmxmode=0666");
	OK(SYS_close, OK(SYS_open, "/pts/ptmx", O_RDWR, 0, 0, 0), 0, 0, 0, 0);
	services = mock_counts(host)->services;
	sleep_for(20000000);
	CHECK(mock_counts(host)->services > services);
	CHECK_EQUAL(CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1), -ENODEV);
	CHECK_EQUAL(CALL(SYS_mmap, 0x10000, 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1), -ENODEV);
	CHECK_EQUAL(mock_upcalls(host)->component_insert(block, MB, ""), -ENOSYS);
	/* One carrier, and no service thread. */
	CHECK_EQUAL(mock_counts(host)->threads, 1);
	CHECK_EQUAL(host_threads(), 1);
	CHECK_EQUAL(mock_counts(host)->longest_extension <= 4 * MB, 1);
	stop();
	CHECK_EQUAL(host_threads(), 1);
}

/* Fills a file until there is no more room. Returns its size. */
static unsigned long fill(const char *path)
{
	long fd = OK(SYS_open, path, O_CREAT | O_WRONLY, 0600, 0, 0), got;
	unsigned long size = 0;

	while ((got = CALL(SYS_write, fd, block, 64 * KB, 0, 0)) > 0)
		size += (unsigned long)got;
	CHECK(got == -ENOSPC || got == -ENOMEM);
	OK(SYS_close, fd, 0, 0, 0, 0);
	return size;
}

static void test_little_memory(const char *image, unsigned long memory)
{
	start(image, (struct mock_options){ .memory = memory });
	CHECK_EQUAL(mock_counts(host)->extended, memory);
	mount_tmpfs("/ram", "size=100%");
	work_on_file("/ram/a", "/ram/b", 256 * KB);
	CHECK(fill("/ram/full") > 256 * KB);
	OK(SYS_unlink, "/ram/full", 0, 0, 0, 0);
	work_on_file("/ram/a", "/ram/b", 256 * KB);
	stop();
}

/* The host gives less than the ceiling: the kernel continues with what it has. */
static void test_refused_memory(const char *image)
{
	const unsigned long given = 20 * MB;
	unsigned long size;

	start(image, (struct mock_options){ .memory = 48 * MB, .memory_given = given });
	mount_tmpfs("/ram", "size=100%");
	size = fill("/ram/full");
	CHECK(size > 10 * MB && size < given);
	CHECK_EQUAL(mock_counts(host)->extended, given);
	CHECK_EQUAL(mock_counts(host)->longest_extension, 4 * MB);
	OK(SYS_unlink, "/ram/full", 0, 0, 0, 0);
	work_on_file("/ram/a", "/ram/b", MB);
	stop();
}

/* Grows memory, frees most of it, and waits until Linux has had the time to report that. */
static uint64_t discarded_after_work(const char *image, bool pinned)
{
	struct mock_options options = { .memory = 128 * MB, .pinned = pinned };
	struct timespec second = { .tv_sec = 1 };
	uint64_t discarded;
	long fd;

	start(image, options);
	mount_tmpfs("/ram", NULL);
	fd = OK(SYS_open, "/ram/large", O_CREAT | O_WRONLY, 0600, 0, 0);
	for (int i = 0; i < 48; i++)
		CHECK_EQUAL(OK(SYS_write, fd, block, MB, 0, 0), MB);
	OK(SYS_close, fd, 0, 0, 0, 0);
	OK(SYS_unlink, "/ram/large", 0, 0, 0, 0);
	for (int i = 0; i < (pinned ? 6 : 60) && !mock_counts(host)->discarded; i++)
		OK(SYS_nanosleep, &second, NULL, 0, 0, 0);
	discarded = mock_counts(host)->discarded;
	CHECK(mock_counts(host)->extended >= 48 * MB);
	stop();
	return discarded;
}

static void test_pinned_memory(const char *image)
{
	CHECK_EQUAL(discarded_after_work(image, true), 0);
	CHECK(discarded_after_work(image, false) > 0);
}

/*
 * Interrupts without a driver, and invalid numbers: before the boot, while the kernel runs, after
 * the halt.
 */
static void raise_unknown(uint32_t vcpus)
{
	static const uint32_t numbers[] = {
		0, OB_INTERRUPT_BLOCK, 2, OB_INTERRUPT_FIRST - 1, OB_INTERRUPT_FIRST, 63, 64, 65,
		500, OB_INTERRUPTS - 1, OB_INTERRUPTS, 1u << 31, UINT32_MAX,
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		mock_upcalls(host)->interrupt(numbers[i]);
	/* vCPUs that the kernel does not have. */
	CHECK_EQUAL(mock_upcalls(host)->service(vcpus), OB_FOREVER);
	CHECK_EQUAL(mock_upcalls(host)->service(UINT32_MAX), OB_FOREVER);
}

static void test_interrupts(const char *image, uint32_t vcpus)
{
	struct mock_options options = { .memory = 32 * MB, .vcpus = vcpus, .log_level = 4 };

	host = mock_new(image, &options);
	CHECK(host);
	raise_unknown(vcpus);
	CHECK_EQUAL(mock_boot(host), 0);
	mount_tmpfs("/ram", NULL);
	for (int i = 0; i < 20; i++) {
		raise_unknown(vcpus);
		sleep_for(1000000);
		work_on_file("/ram/a", "/ram/b", 64 * KB);
	}
	CHECK_EQUAL(mock_halt(host), 0);
	raise_unknown(vcpus);
	mock_free(host);
}

#define ROUNDS 300

struct player {
	int from, to;
	bool begins;
	long rounds;
};

/* Passes a byte to and fro. */
static void play(void *argument)
{
	struct player *player = argument;
	char byte = 1;

	if (player->begins)
		CHECK_EQUAL(OK(SYS_write, player->to, &byte, 1, 0, 0), 1);
	while (player->rounds < ROUNDS) {
		CHECK_EQUAL(OK(SYS_read, player->from, &byte, 1, 0, 0), 1);
		player->rounds++;
		if (player->rounds < ROUNDS || !player->begins)
			CHECK_EQUAL(OK(SYS_write, player->to, &byte, 1, 0, 0), 1);
	}
}

static long tasks(void)
{
	char status[4096];
	long fd = OK(SYS_open, "/proc/self/status", O_RDONLY, 0, 0, 0), length;
	const char *line;

	length = OK(SYS_read, fd, status, sizeof(status) - 1, 0, 0);
	OK(SYS_close, fd, 0, 0, 0, 0);
	status[length] = '\0';
	line = strstr(status, "\nThreads:");
	CHECK(line);
	return strtol(line + 9, NULL, 10);
}

/* Several clients, which wait for each other, on one and two vCPUs. */
static void test_clients(const char *image, uint32_t vcpus)
{
	int there[2], back[2];
	struct player players[2];
	uint64_t handles[2];
	long before;

	start(image, (struct mock_options){ .memory = 32 * MB, .vcpus = vcpus });
	before = tasks();
	OK(SYS_pipe, there, 0, 0, 0, 0);
	OK(SYS_pipe, back, 0, 0, 0, 0);
	players[0] = (struct player){ .from = back[0], .to = there[1], .begins = true };
	players[1] = (struct player){ .from = there[0], .to = back[1] };
	for (int i = 0; i < 2; i++) {
		handles[i] = mock_client(host, play, &players[i]);
		CHECK(handles[i]);
	}
	/* The program's own thread is out in host code then: its task must leave the vCPU. */
	for (int i = 0; i < 2; i++) {
		ob_host_thread_join(host, handles[i]);
		CHECK_EQUAL(players[i].rounds, ROUNDS);
	}
	CHECK_EQUAL(tasks(), before);
	CHECK_EQUAL(host_threads(), 1);
	stop();
}

/* The disk as a block device: writes that are on stable storage, a discard. */
static void test_disk(const char *image)
{
	struct ob_disk_parameters disk = { .path = "ram" };
	uint64_t range[2] = { 0, 4096 };
	char name[32];
	long fd;

	start(image, (struct mock_options){ .memory = 64 * MB, .disk_size = 8 * MB });
	CHECK(mock_upcalls(host)->disk_add(&disk, name) >= 0);
	CHECK(!strcmp(name, "vda"));
	fd = OK(SYS_open, "/dev/vda", O_RDWR, 0, 0, 0);
	memset(block, 'x', MB);
	CHECK_EQUAL(OK(SYS_pwrite64, fd, block, MB, MB, 0), MB);
	OK(SYS_fsync, fd, 0, 0, 0, 0);
	CHECK(!memcmp(mock_disk(host) + MB, block, MB));
	mock_disk(host)[4 * MB] = 'y';
	CHECK_EQUAL(OK(SYS_pread64, fd, copy, 4096, 4 * MB, 0), 4096);
	CHECK_EQUAL(copy[0], 'y');
	range[0] = MB;
	OK(SYS_ioctl, fd, BLKDISCARD, range, 0, 0);
	CHECK_EQUAL(mock_disk(host)[MB], 0);
	CHECK_EQUAL(mock_disk(host)[MB + 4096], 'x');
	OK(SYS_close, fd, 0, 0, 0, 0);
	stop();
}

/* The size of the module "hello" in /proc/modules. 0: it is not loaded. */
static long hello_size(void)
{
	char modules[4096];
	long fd = OK(SYS_open, "/proc/modules", O_RDONLY, 0, 0, 0), length;

	length = OK(SYS_read, fd, modules, sizeof(modules) - 1, 0, 0);
	OK(SYS_close, fd, 0, 0, 0, 0);
	modules[length] = '\0';
	return strncmp(modules, "hello ", 6) ? 0 : atol(modules + 6);
}

/* Loads a module into RAM. If RAM cannot be executed, the kernel refuses the module. */
static void test_module(const char *image, const char *path, bool executable)
{
	int fd = open(path, O_RDONLY), error;
	struct stat status;
	void *bytes;

	CHECK(fd >= 0 && !fstat(fd, &status));
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(bytes != MAP_FAILED);
	start(image, (struct mock_options){ .memory = 64 * MB, .executable = executable });
	for (int i = 0; i < 3; i++) {
		error = mock_upcalls(host)->component_insert(bytes, (uint64_t)status.st_size, "");
		CHECK_EQUAL(error, executable ? 0 : -ENOSYS);
		CHECK_EQUAL(hello_size() > 0, executable);
		if (executable)
			OK(SYS_delete_module, "hello", 0, 0, 0, 0);
		CHECK_EQUAL(hello_size(), 0);
	}
	stop();
}

static void copy_file(const char *path, bool to_disk)
{
	int fd = open(path, to_disk ? O_RDONLY : O_WRONLY | O_TRUNC);

	CHECK(fd >= 0);
	for (long done = 0, got; done < (long)(64 * MB); done += got) {
		char *at = mock_disk(host) + done;

		got = to_disk ? read(fd, at, MB) : write(fd, at, MB);
		CHECK(got > 0);
	}
	CHECK(!close(fd));
}

/* A file system on the disk. The disk's contents come from a file of the host, and return there. */
static void test_file_system(const char *image, const char *path)
{
	struct ob_disk_parameters disk = { .path = "ram" };
	char name[32];

	start(image, (struct mock_options){ .memory = 64 * MB, .disk_size = 64 * MB });
	copy_file(path, true);
	CHECK(mock_upcalls(host)->disk_add(&disk, name) >= 0);
	OK(SYS_mkdir, "/disk", 0755, 0, 0, 0);
	OK(SYS_mount, "/dev/vda", "/disk", "ext4", 0, "");
	work_on_file("/disk/a", "/disk/b", MB);
	OK(SYS_mkdir, "/disk/made-by-mock", 0755, 0, 0, 0);
	CHECK_EQUAL(mock_halt(host), 0);
	copy_file(path, false);
	mock_free(host);
}

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 2 ? argv[2] : "";

	if (!strcmp(which, "files"))
		test_files(image);
	else if (!strcmp(which, "little"))
		test_little_memory(image, 4 * MB);
	else if (!strcmp(which, "least-with-disks"))
		test_little_memory(image, 16 * MB);
	else if (!strcmp(which, "refused"))
		test_refused_memory(image);
	else if (!strcmp(which, "pinned"))
		test_pinned_memory(image);
	else if (!strcmp(which, "interrupts"))
		test_interrupts(image, 1);
	else if (!strcmp(which, "interrupts-2"))
		test_interrupts(image, 2);
	else if (!strcmp(which, "clients"))
		test_clients(image, 1);
	else if (!strcmp(which, "clients-2"))
		test_clients(image, 2);
	else if (!strcmp(which, "disk"))
		test_disk(image);
	else if (!strcmp(which, "module") && argc > 3)
		test_module(image, argv[3], true);
	else if (!strcmp(which, "no-module") && argc > 3)
		test_module(image, argv[3], false);
	else if (!strcmp(which, "file-system") && argc > 3)
		test_file_system(image, argv[3]);
	else
		CHECK(!"usage: mock_test IMAGE CASE [FILE]");
	puts("done");
	return 0;
}
