// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread that is to be cancelled ends at a cancellation point of the program, and not inside the
 * kernel: cancel_test IMAGE
 *
 * Each thread asks for its own cancellation, which then waits for a cancellation point, and makes
 * calls that need the host. All of them return; pthread_testcancel() ends the thread; the kernel
 * works on and halts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define BLOCK 65536
#define BLOCKS 64

static int disk;
static const char *image;
static volatile int returned;

/* The host has nothing of the image in memory: every read asks it. */
static void make_cold(void)
{
	int file = open(image, O_RDONLY | O_CLOEXEC);

	CHECK(file >= 0);
	CHECK(!posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
	close(file);
}

static void transfer(int flags)
{
	static char block[BLOCK] __attribute__((aligned(4096)));
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/image/large", O_RDWR | flags, 0));

	for (int i = 0; i < BLOCKS; i++)
		CHECK_EQUAL(OK(ob_sys_pread64(file, block, BLOCK, (long)i * BLOCK)), BLOCK);
	for (int i = 0; i < BLOCKS; i++)
		CHECK_EQUAL(OK(ob_sys_pwrite64(file, block, BLOCK, (long)i * BLOCK)), BLOCK);
	OK(ob_sys_fsync(file));
	OK(ob_sys_close(file));
}

static void cached(void)
{
	transfer(0);
}

static void direct(void)
{
	transfer(O_DIRECT);
}

/* Anything may happen to be written by the thread that has made it so. */
static void sync_all(void)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/image/new", O_CREAT | O_WRONLY, 0600));

	CHECK_EQUAL(OK(ob_sys_write(file, "new", 3)), 3);
	OK(ob_sys_close(file));
	ob_sys_sync();
}

/* Each line goes to standard error: the default sink of the log. */
static void log_lines(void)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/dev/kmsg", O_WRONLY, 0));

	for (int i = 0; i < 100; i++)
		OK(ob_sys_write(file, "<3>a line\n", 10));
	OK(ob_sys_close(file));
}

/* Memory grows, pages are shown and hidden. */
static void map_pages(void)
{
	char *pages = ob_sys_mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	for (long i = 0; i < 64 << 20; i += 4096)
		pages[i] = 1;
	OK(ob_sys_munmap(pages, 64 << 20));
}

static void add_and_remove(void)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = "second.img" };
	char name[32];
	int second = ob_disk_add(&config, name);

	CHECK(second >= 0);
	CHECK_EQUAL(ob_disk_remove(second), 0);
}

static const struct {
	const char *name;
	void (*work)(void);
} ways[] = {
	{ "cached", cached }, { "direct", direct }, { "sync", sync_all }, { "log", log_lines },
	{ "map", map_pages }, { "disk", add_and_remove },
};

static void *run(void *argument)
{
	void (*work)(void) = argument;

	CHECK(!pthread_cancel(pthread_self()));
	work();
	returned++;
	pthread_testcancel();
	CHECK(!"the thread has been cancelled");
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t thread;
	void *result;

	CHECK_EQUAL(count, 2);
	image = arguments[1];
	client_boot(2);
	disk = client_mount(image, "ext4", "/image");
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		make_cold();
		CHECK(!pthread_create(&thread, NULL, run, ways[i].work));
		CHECK(!pthread_join(thread, &result));
		if (result != PTHREAD_CANCELED || returned != (int)i + 1) {
			fprintf(stderr, "%s: the thread ended inside a call\n", ways[i].name);
			_Exit(1);
		}
	}
	OK(ob_sys_umount2("/image", 0));
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
