// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: calls that must end, and end without harm.
 *
 *   volume_ends_test NAME DIR
 *
 * The volume has a FIFO /fifo and a file /file. DIR/large is too large to be copied before it is
 * cancelled; DIR/image looks like a disk image.
 */
#include <errno.h>
#include <unistd.h>

#include "volume_check.h"

static const char *in(const char *directory, const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void test_fifo(struct ob_volume *volume)
{
	struct ob_volume_file *file;
	size_t length;
	void *data;

	BAD(ob_volume_read(volume, "/fifo", 100, &data, &length), OB_VOLUME_UNSUPPORTED);
	CHECK(strstr(ob_volume_error(), "FIFO"));
	BAD(ob_volume_write(volume, "/fifo", "x", 1), OB_VOLUME_UNSUPPORTED);
	BAD(ob_volume_file_open(volume, "/fifo", OB_VOLUME_READ, 0, &file), OB_VOLUME_UNSUPPORTED);
}

static void test_remove(struct ob_volume *volume)
{
	GOOD(ob_volume_mkdir(volume, "/a", 0755, 0));
	BAD(ob_volume_remove(volume, "/", OB_VOLUME_RECURSIVE), OB_VOLUME_USAGE);
	BAD(ob_volume_remove(volume, "/a/..", OB_VOLUME_RECURSIVE), OB_VOLUME_USAGE);
	check_contents(volume, "/file", "text\n");
}

static void test_limits(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_options options = { .size = sizeof(options) };
	struct ob_volume_cancel *cancel, *other;
	struct ob_volume *second;
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	struct ob_volume_file *file;
	size_t length;
	void *data;

	GOOD(ob_volume_cancel_new(&cancel));
	GOOD(ob_volume_file_open(volume, "/file", OB_VOLUME_READ, 0, &file));
	GOOD(ob_volume_limit(3600000, cancel));
	check_contents(volume, "/file", "text\n");
	GOOD(ob_volume_cancel_calls(cancel));
	BAD(ob_volume_read(volume, "/file", 100, &data, &length), OB_VOLUME_INTERRUPTED);
	CHECK(strstr(ob_volume_error(), "cancelled"));
	CHECK_EQUAL(ob_volume_errno(), ECANCELED);
	BAD(ob_volume_open(in(directory, "image"), &options, &second), OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_copy_in(in(directory, "large"), volume, "/large", NULL, NULL),
	    OB_VOLUME_INTERRUPTED);
	/* The canceller stops no close. */
	GOOD(ob_volume_file_close(file));
	/* A new limit takes the place of the old one. */
	GOOD(ob_volume_cancel_new(&other));
	GOOD(ob_volume_limit(0, other));
	check_contents(volume, "/file", "text\n");
	GOOD(ob_volume_limit(1, NULL));
	usleep(2000);
	BAD(ob_volume_read(volume, "/file", 100, &data, &length), OB_VOLUME_TIMED_OUT);
	CHECK(!strcmp(ob_volume_error_name(OB_VOLUME_TIMED_OUT), "timed-out"));
	GOOD(ob_volume_limit(0, NULL));
	check_contents(volume, "/file", "text\n");
	BAD(ob_volume_file_close(file), OB_VOLUME_CLOSED);
	GOOD(ob_volume_cancel_free(other));
	BAD(ob_volume_limit(0, other), OB_VOLUME_CLOSED);
	GOOD(ob_volume_cancel_free(cancel));
	BAD(ob_volume_cancel_calls(cancel), OB_VOLUME_CLOSED);
	BAD(ob_volume_cancel_calls(NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_cancel_calls((void *)volume), OB_VOLUME_USAGE);
	BAD(ob_volume_stat(volume, "/large", 0, &stat), OB_VOLUME_NOT_FOUND);
}

struct calls {
	int count;
	int cancelled;
};

static int cancel(void *context, const struct ob_volume_progress *progress)
{
	struct calls *calls = context;

	CHECK_EQUAL(progress->size, sizeof(*progress));
	CHECK(!calls->cancelled);
	calls->count++;
	calls->cancelled = progress->bytes > 0;
	return calls->cancelled;
}

static void test_callbacks(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_summary summary = { .size = sizeof(summary) };
	struct calls calls = { 0 };
	struct ob_volume_transfer options = {
		.size = sizeof(options), .progress = cancel, .progress_context = &calls
	};

	BAD(ob_volume_copy_in(in(directory, "large"), volume, "/large", &options, &summary),
	    OB_VOLUME_INTERRUPTED);
	CHECK(calls.count > 0);
	CHECK_EQUAL(summary.files, 0);
	CHECK(summary.bytes > 0);
}

static void test_force(struct ob_volume *volume, const char *directory)
{
	struct ob_volume_transfer options = { .size = sizeof(options) };
	const char *image = in(directory, "image");

	CHECK(ob_volume_copy_out(volume, "/file", image, &options, NULL) < 0);
	options.flags = OB_VOLUME_FORCE;
	GOOD(ob_volume_copy_out(volume, "/file", image, &options, NULL));
}

static void test_key(const char *name)
{
	struct ob_volume_options options = { .size = sizeof(options), .key = "" };
	struct ob_volume *volume;

	BAD(ob_volume_open(name, &options, &volume), OB_VOLUME_USAGE);
}

int main(int count, char **arguments)
{
	struct ob_volume *volume;

	CHECK_EQUAL(count, 3);
	alarm(300);
	test_key(arguments[1]);
	volume = open_volume(arguments[1], NULL, OB_VOLUME_WRITABLE);
	test_fifo(volume);
	test_remove(volume);
	test_limits(volume, arguments[2]);
	test_callbacks(volume, arguments[2]);
	test_force(volume, arguments[2]);
	GOOD(ob_volume_close(volume));
	return 0;
}
