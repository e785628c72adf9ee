// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: making, partitioning, checking and resizing images, from a process with two
 * threads.
 *
 *   volume_make_test DIR
 *
 * Makes DIR/disk.img, DIR/tree.qcow2, DIR/root.squashfs and others of DIR/tree, which has a file
 * "hello". DIR/damaged.img is an ext4 file system with an error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "volume_check.h"

#define MEGABYTE (1024 * 1024)

static const char *in(const char *directory, const char *name)
{
	static char paths[4][4096];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

static off_t size_of(const char *path)
{
	struct stat stat_now;

	CHECK(!stat(path, &stat_now));
	return stat_now.st_size;
}

static void test_partition(const char *directory)
{
	static const char *const good[] = { "esp:8M,name=EFI", "linux:rest", NULL };
	static const char *const large[] = { "linux:65M", NULL };
	static const char *const odd[] = { "linux:1M,name=a\"b", NULL };
	struct ob_volume_table table = {
		.size = sizeof(table), .length = 64 * MEGABYTE, .partitions = good
	};
	const char *image = in(directory, "disk.img");

	GOOD(ob_volume_partition(image, &table, NULL));
	CHECK_EQUAL(size_of(image), 64 * MEGABYTE);
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_ALREADY_EXISTS);
	table.partitions = large;
	image = in(directory, "none.img");
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_NO_SPACE);
	table.type = OB_VOLUME_MBR;
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_NO_SPACE);
	table.partitions = odd;
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_USAGE);
	table.type = 2;
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_partition(image, NULL, NULL), OB_VOLUME_USAGE);
	CHECK(access(image, F_OK));
}

static void test_partition_of_large_sectors(const char *directory)
{
	static const char *const partitions[] = { "linux:rest", NULL };
	struct ob_volume_table table = {
		.size = sizeof(table), .length = 64 * MEGABYTE, .partitions = partitions,
		.sector_size = 2048
	};
	const char *image = in(directory, "large.img");
	struct ob_volume_disk *disk;

	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_USAGE);
	table.sector_size = 4096;
	table.type = OB_VOLUME_MBR;
	BAD(ob_volume_partition(image, &table, NULL), OB_VOLUME_UNSUPPORTED);
	CHECK(access(image, F_OK));
	table.type = OB_VOLUME_GPT;
	GOOD(ob_volume_partition(image, &table, NULL));
	GOOD(ob_volume_disk_open(image, NULL, &disk));
	CHECK_EQUAL(ob_volume_disk_sector_size(disk), 4096);
	GOOD(ob_volume_disk_close(disk));
}

static void check_hello(const char *name)
{
	struct ob_volume *volume = open_volume(name, NULL, 0);

	check_contents(volume, "/hello", "hello\n");
	GOOD(ob_volume_close(volume));
}

static void test_make(const char *directory)
{
	static const char *const odd[] = { "--no-such-option", NULL };
	struct ob_volume_make make = { .size = sizeof(make), .label = "root" };
	const char *disk = in(directory, "disk.img@2");
	struct ob_volume *volume;
	char tree[4096], *warnings;

	snprintf(tree, sizeof(tree), "%s/tree", directory);
	GOOD(ob_volume_make(in(directory, "disk.img@1"), "vfat", NULL, NULL, &warnings));
	CHECK(!warnings[0]);
	ob_volume_memory_free(warnings);
	make.from = tree;
	GOOD(ob_volume_make(disk, "ext4", &make, NULL, NULL));
	check_hello(disk);
	BAD(ob_volume_make(disk, "ext4", &make, NULL, NULL), OB_VOLUME_ALREADY_EXISTS);
	make.flags = OB_VOLUME_REPLACE;
	volume = open_volume(disk, NULL, 0);
	BAD(ob_volume_make(disk, "ext4", &make, NULL, NULL), OB_VOLUME_LOCKED);
	GOOD(ob_volume_close(volume));
	GOOD(ob_volume_make(disk, "ext4", &make, NULL, NULL));
	/* The kernel of this process writes into the new qcow2. */
	GOOD(ob_volume_make(in(directory, "tree.qcow2"), "ext4", &make, NULL, NULL));
	check_hello(in(directory, "tree.qcow2"));
	make.label = NULL;
	GOOD(ob_volume_make(in(directory, "root.squashfs"), "squashfs", &make, NULL, NULL));
	check_hello(in(directory, "root.squashfs"));
	BAD(ob_volume_make(in(directory, "none.img"), "swap", &make, NULL, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_make(in(directory, "none.img"), "nonsense", &make, NULL, NULL),
	    OB_VOLUME_USAGE);
	make.length = MEGABYTE;
	BAD(ob_volume_make(in(directory, "none.img"), "ext4", &make, NULL, NULL),
	    OB_VOLUME_NO_SPACE);
	make.tool_options = odd;
	CHECK(ob_volume_make(in(directory, "none.img"), "ext4", &make, NULL, NULL) < 0);
	CHECK(strstr(ob_volume_error(), "none.img"));
	CHECK(access(in(directory, "none.img"), F_OK));
}

static void test_cancel(const char *directory)
{
	uint32_t cancelled = 1;
	struct ob_volume_make make = {
		.size = sizeof(make), .length = 64 * MEGABYTE, .cancel = &cancelled
	};

	BAD(ob_volume_make(in(directory, "none.img"), "ext4", &make, NULL, NULL),
	    OB_VOLUME_INTERRUPTED);
	CHECK(access(in(directory, "none.img"), F_OK));
	cancelled = 0;
	GOOD(ob_volume_make(in(directory, "grown.img"), "ext4", &make, NULL, NULL));
}

static int count_calls(void *context, const struct ob_volume_progress *progress)
{
	int *calls = context;

	CHECK_EQUAL(progress->size, sizeof(*progress));
	return ++*calls < 0;
}

static int stop_at_once(void *context, const struct ob_volume_progress *progress)
{
	CHECK(!context && progress->size);
	return 1;
}

static void test_progress(const char *directory)
{
	struct ob_volume_make make = { .size = sizeof(make), .progress = stop_at_once };
	const char *image = in(directory, "watched.img");
	char tree[4096];
	int calls = 0;

	snprintf(tree, sizeof(tree), "%s/tree", directory);
	make.from = tree;
	BAD(ob_volume_make(image, "ext4", &make, NULL, NULL), OB_VOLUME_INTERRUPTED);
	CHECK(strstr(ob_volume_error(), "watched.img was not made"));
	CHECK(access(image, F_OK));
	make.progress = count_calls;
	make.progress_context = &calls;
	GOOD(ob_volume_make(image, "ext4", &make, NULL, NULL));
	CHECK(calls > 0);
}

static uint32_t check(const char *name, uint32_t flags)
{
	struct ob_volume_checked checked = { .size = sizeof(checked) };

	GOOD(ob_volume_check(name, flags, NULL, &checked));
	CHECK(!strcmp(checked.type, "ext4") && !strcmp(checked.checker, "e2fsck"));
	CHECK(checked.output[0]);
	GOOD(ob_volume_checked_free(&checked));
	CHECK(!checked.type && !checked.checker && !checked.output);
	GOOD(ob_volume_checked_free(&checked));
	return checked.outcome;
}

static void test_check(const char *directory)
{
	const char *damaged = in(directory, "damaged.img");
	struct ob_volume_checked checked = { .size = sizeof(checked) };

	CHECK_EQUAL(check(in(directory, "disk.img@2"), 0), OB_VOLUME_CHECK_CLEAN);
	CHECK_EQUAL(check(damaged, 0), OB_VOLUME_CHECK_ERRORS);
	CHECK_EQUAL(check(damaged, OB_VOLUME_REPAIR), OB_VOLUME_CHECK_CORRECTED);
	CHECK_EQUAL(check(damaged, OB_VOLUME_REPLAY), OB_VOLUME_CHECK_CLEAN);
	BAD(ob_volume_check(damaged, OB_VOLUME_REPAIR | OB_VOLUME_REPAIR_SAFELY, NULL, &checked),
	    OB_VOLUME_USAGE);
	BAD(ob_volume_check(in(directory, "tree.qcow2"), 0, NULL, &checked),
	    OB_VOLUME_UNSUPPORTED);
	BAD(ob_volume_check(damaged, 0, NULL, NULL), OB_VOLUME_USAGE);
	GOOD(ob_volume_checked_free(NULL));
	CHECK(!checked.type);
}

static void test_resize(const char *directory)
{
	const char *image = in(directory, "grown.img");
	uint64_t size;

	GOOD(ob_volume_resize(image, 96 * MEGABYTE, NULL, &size));
	CHECK_EQUAL(size, 96 * MEGABYTE);
	CHECK_EQUAL(size_of(image), 96 * MEGABYTE);
	GOOD(ob_volume_resize(image, OB_VOLUME_LEAST, NULL, &size));
	CHECK(size < 64 * MEGABYTE);
	CHECK_EQUAL((uint64_t)size_of(image), size);
	GOOD(ob_volume_resize(in(directory, "disk.img@2"), OB_VOLUME_MOST, NULL, NULL));
	BAD(ob_volume_resize(in(directory, "disk.img@1"), OB_VOLUME_MOST, NULL, NULL),
	    OB_VOLUME_UNSUPPORTED);
}

/*
 * Makes processes that have copies of all descriptors of this one for a moment, one after the
 * other: as a program that starts has until its exec, but for longer.
 */
static void *hold_copies(void *stop)
{
	while (!atomic_load((atomic_bool *)stop)) {
		pid_t child = _Fork();

		CHECK(child >= 0);
		if (!child) {
			usleep(20000);
			_exit(0);
		}
		CHECK_EQUAL(waitpid(child, NULL, 0), child);
	}
	return NULL;
}

/* An image is unlocked when its call or volume ends, whatever copies of its lock there are. */
static void test_copies_of_locks(const char *directory)
{
	struct ob_volume_make make = {
		.size = sizeof(make), .flags = OB_VOLUME_REPLACE, .length = 16 * MEGABYTE
	};
	const char *image = in(directory, "locked.img"), *qcow2 = in(directory, "tree.qcow2");
	atomic_bool stop = false;
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, hold_copies, &stop));
	for (int n = 0; n < 8; n++) {
		GOOD(ob_volume_make(image, "ext4", &make, NULL, NULL));
		GOOD(ob_volume_close(open_volume(image, NULL, OB_VOLUME_WRITABLE)));
		CHECK_EQUAL(check(image, OB_VOLUME_REPAIR), OB_VOLUME_CHECK_CLEAN);
		GOOD(ob_volume_resize(image, (16 + n) * MEGABYTE, NULL, NULL));
		GOOD(ob_volume_close(open_volume(qcow2, NULL, OB_VOLUME_WRITABLE)));
	}
	atomic_store(&stop, true);
	CHECK(!pthread_join(thread, NULL));
}

/* Another thread of the program, which the library must not need. */
static void *wait_for_end(void *lock)
{
	pthread_mutex_lock(lock);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	char before[4096], after[4096];
	struct rlimit limit_before, limit_after;

	CHECK_EQUAL(argc, 2);
	umask(027);
	CHECK(getcwd(before, sizeof(before)));
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit_before));
	pthread_mutex_lock(&lock);
	CHECK(!pthread_create(&thread, NULL, wait_for_end, &lock));
	test_partition(argv[1]);
	test_partition_of_large_sectors(argv[1]);
	test_make(argv[1]);
	test_cancel(argv[1]);
	test_progress(argv[1]);
	test_check(argv[1]);
	test_resize(argv[1]);
	test_copies_of_locks(argv[1]);
	/* The process is as it was. */
	CHECK_EQUAL(umask(027), 027);
	CHECK(getcwd(after, sizeof(after)) && !strcmp(before, after));
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit_after));
	CHECK_EQUAL(limit_after.rlim_cur, limit_before.rlim_cur);
	pthread_mutex_unlock(&lock);
	CHECK(!pthread_join(thread, NULL));
	return 0;
}
