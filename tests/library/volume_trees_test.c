// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: copies, archives, cancelled copies.
 *
 *   volume_trees_test NAME DIR
 *
 * Copies DIR/tree into the empty volume and back to DIR/back, packs DIR/FORMAT.tar, and begins to
 * copy DIR/large. DIR/linked.img is another name of the image.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "volume_check.h"

struct watch {
	struct ob_volume *volume;
	pthread_t thread;
	uint64_t most;
	int calls;
	int result;		/* once some bytes are there */
};

static int watch(void *context, const struct ob_volume_progress *progress)
{
	struct watch *watch = context;

	CHECK(pthread_equal(watch->thread, pthread_self()));
	CHECK(progress->bytes >= watch->most);
	watch->most = progress->bytes;
	watch->calls++;
	BAD(ob_volume_close(watch->volume), OB_VOLUME_USAGE);
	return progress->bytes ? watch->result : 0;
}

static const char *in(const char *directory, const char *name)
{
	static char paths[4][4096];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

static void test_copy(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_summary summary = { .size = sizeof(summary) };
	struct watch watched = { .volume = volume, .thread = pthread_self() };
	struct ob_volume_transfer options = {
		.size = sizeof(options), .progress = watch,
		.progress_context = &watched
	};

	GOOD(ob_volume_copy_in(in(directory, "tree"), volume, "/tree", &options, &summary));
	CHECK(watched.calls > 0);
	CHECK(summary.files >= 3 && summary.bytes >= 1 << 20);
	CHECK(!summary.warnings);
	GOOD(ob_volume_copy(volume, "/tree", volume, "/again", NULL, NULL));
	GOOD(ob_volume_copy_out(volume, "/again", in(directory, "back"), NULL, &summary));
	CHECK(summary.files >= 3);
	BAD(ob_volume_copy_out(volume, "/missing", in(directory, "none"), NULL, &summary),
	    OB_VOLUME_NOT_FOUND);
	CHECK(access(in(directory, "none"), F_OK));
	/* Any memory of the library may stand for warnings. */
	GOOD(ob_volume_type(volume, &summary.warnings));
	GOOD(ob_volume_summary_free(&summary));
	CHECK(!summary.warnings);
	GOOD(ob_volume_summary_free(&summary));
	GOOD(ob_volume_summary_free(NULL));
	options.size = 1;
	BAD(ob_volume_copy_out(volume, "/again", in(directory, "none"), &options, NULL),
	    OB_VOLUME_USAGE);
}

static void test_archives(struct ob_volume *volume, const char *directory)
{
	static const char *const names[] = { "plain.tar", "gzip.tar", "zstd.tar", "xz.tar" };
	struct ob_volume_summary summary = { .size = sizeof(summary) };
	struct ob_volume_transfer options = { .size = sizeof(options) };
	const char *target;
	int fd;

	for (uint32_t index = 0; index < 4; index++) {
		options.compression = index;
		fd = open(in(directory, names[index]), O_RDWR | O_CREAT | O_EXCL, 0600);
		GOOD(ob_volume_tar_out(volume, "/tree", fd, &options, &summary));
		CHECK(summary.files >= 3);
		CHECK(lseek(fd, 0, SEEK_SET) == 0);
		target = in("/unpacked", names[index]);
		GOOD(ob_volume_mkdir(volume, target, 0755, OB_VOLUME_PARENTS));
		GOOD(ob_volume_tar_in(fd, volume, target, NULL, NULL));
		/* The descriptor is still ours. */
		CHECK(!close(fd));
	}
	options.compression = 9;
	BAD(ob_volume_tar_out(volume, "/tree", 1, &options, NULL), OB_VOLUME_USAGE);
	fd = open(in(directory, "tree/noise"), O_RDONLY);
	CHECK(ob_volume_tar_in(fd, volume, "/unpacked", NULL, NULL) < 0);
	CHECK(!close(fd));
}

/* No transfer overwrites the image of an open volume, whatever its name. */
static void test_image_stays(struct ob_volume *volume, const char *name, const char *directory)
{
	struct ob_volume_transfer plain = { .size = sizeof(plain), .flags = OB_VOLUME_CONTENTS };
	int fd = open(name, O_RDWR);

	BAD(ob_volume_copy_out(volume, "/tree/empty", name, NULL, NULL), OB_VOLUME_IN_USE);
	CHECK(strstr(ob_volume_error(), "open volume"));
	BAD(ob_volume_copy_out(volume, "/tree/empty", in(directory, "linked.img"), &plain, NULL),
	    OB_VOLUME_IN_USE);
	BAD(ob_volume_tar_out(volume, "/tree", fd, NULL, NULL), OB_VOLUME_IN_USE);
	BAD(ob_volume_tar_in(fd, volume, "/tree", NULL, NULL), OB_VOLUME_IN_USE);
	CHECK(lseek(fd, 0, SEEK_CUR) == 0);
	CHECK(!close(fd));
}

/* Copies a large file, and cancels once some of it is there: see the caller's tree. */
static void *copy_large(void *context)
{
	void **arguments = context;
	struct ob_volume_transfer options = { .size = sizeof(options), .cancel = arguments[2] };

	BAD(ob_volume_copy_in(arguments[1], arguments[0], "/large", &options, NULL),
	    OB_VOLUME_INTERRUPTED);
	return NULL;
}

static void test_cancel(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	struct watch watched = { .volume = volume, .thread = pthread_self(), .result = 1 };
	struct ob_volume_transfer options = {
		.size = sizeof(options), .progress = watch,
		.progress_context = &watched
	};
	volatile uint32_t cancel = 0;
	void *arguments[] = { volume, (void *)in(directory, "large"), (void *)&cancel };
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, copy_large, arguments));
	usleep(200000);
	cancel = 1;
	CHECK(!pthread_join(thread, NULL));
	BAD(ob_volume_stat(volume, "/large", 0, &stat), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_copy_in(in(directory, "large"), volume, "/large", &options, NULL),
	    OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_stat(volume, "/large", 0, &stat), OB_VOLUME_NOT_FOUND);
}

/* Transfers that were cancelled before they began make nothing. */
static void test_cancelled_before(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	volatile uint32_t cancel = 1;
	struct ob_volume_transfer options = { .size = sizeof(options), .cancel = &cancel };
	int fd = open(in(directory, "plain.tar"), O_RDONLY);
	int other = open(in(directory, "cancelled.tar"), O_RDWR | O_CREAT | O_EXCL, 0600);

	GOOD(ob_volume_mkdir(volume, "/cancelled", 0755, 0));
	BAD(ob_volume_tar_in(fd, volume, "/cancelled", &options, NULL), OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_stat(volume, "/cancelled/noise", 0, &stat), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_tar_out(volume, "/tree", other, &options, NULL), OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_copy(volume, "/tree/noise", volume, "/cancelled/noise", &options, NULL),
	    OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_stat(volume, "/cancelled/noise", 0, &stat), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_copy_out(volume, "/tree/noise", in(directory, "none"), &options, NULL),
	    OB_VOLUME_INTERRUPTED);
	CHECK(access(in(directory, "none"), F_OK));
	CHECK(!close(fd) && !close(other));
}

int main(int count, char **arguments)
{
	struct ob_volume *volume;
	long files, tasks = count_entries("/proc/self/task");

	CHECK_EQUAL(count, 3);
	volume = open_volume(arguments[1], NULL, OB_VOLUME_WRITABLE);
	test_copy(volume, arguments[2]);
	test_archives(volume, arguments[2]);
	test_image_stays(volume, arguments[1], arguments[2]);
	files = count_entries("/proc/self/fd");
	test_cancel(volume, arguments[2]);
	test_cancelled_before(volume, arguments[2]);
	CHECK_EQUAL(count_entries("/proc/self/fd"), files);
	GOOD(ob_volume_close(volume));
	/* The thread that repeats a cancel ends within 50 ms after the call that it has ended. */
	for (int i = 0; count_entries("/proc/self/task") != tasks; i++) {
		CHECK(i < 1000);
		usleep(10000);
	}
	return 0;
}
