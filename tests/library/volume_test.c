// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: every function but transfers, on a volume that the caller has made.
 *
 *   volume_test read NAME KEY           on a volume that can only be read, with /hello in it
 *   volume_test write NAME KEY          on an empty volume; leaves files in it for the caller
 *   volume_test fail NAME KEYTEXT ERROR the volume cannot be opened, for this reason
 *   volume_test panic NAME OTHER        the kernel of the volume panics when it looks for /trap
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "volume_check.h"

/* ---- lists ---- */

struct names {
	struct ob_volume *volume;
	char text[1024];
	int stop;
};

static int add_name(void *context, const struct ob_volume_entry *entry)
{
	struct names *names = context;
	char line[256];

	CHECK_EQUAL(entry->size, sizeof(*entry));
	CHECK(strstr(entry->path, entry->name));
	/* A callback may call, but not close. */
	BAD(ob_volume_close(names->volume), OB_VOLUME_USAGE);
	if (!strcmp(entry->name, "lost+found"))
		return 0;
	snprintf(line, sizeof(line), "%s %u %u\n", entry->path, entry->type, entry->depth);
	strcat(names->text, line);
	return names->stop;
}

static void check_list(struct ob_volume *volume, const char *path, uint32_t flags,
		       const char *expected)
{
	struct names names = { .volume = volume };

	GOOD(ob_volume_list(volume, path, flags, add_name, &names));
	if (strcmp(names.text, expected)) {
		fprintf(stderr, "%s has\n%snot\n%s", path, names.text, expected);
		_Exit(1);
	}
}

/* In any order: that of the file system. */
static void check_two_names(struct ob_volume *volume, const char *path, const char *one,
			    const char *other)
{
	struct names names = { .volume = volume };

	GOOD(ob_volume_list(volume, path, 0, add_name, &names));
	CHECK(strstr(names.text, one) && strstr(names.text, other));
	CHECK_EQUAL(strlen(names.text), strlen(one) + strlen(other));
}

static void test_list_ends(struct ob_volume *volume)
{
	struct names names = { .volume = volume, .stop = 7 };

	CHECK_EQUAL(ob_volume_list(volume, "/", 0, add_name, &names), 7);
	names.stop = -1;
	BAD(ob_volume_list(volume, "/", 0, add_name, &names), OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_list(volume, "/", 0, NULL, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_list(volume, "/missing", 0, add_name, &names), OB_VOLUME_NOT_FOUND);
}

/* ---- handles ---- */

/* Each class of call, with a handle of a volume that is not open here. */
static void check_not_open(struct ob_volume *volume, struct ob_volume_file *file, int error)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	struct ob_volume_file *other;
	char *text = (char *)"untouched";
	char byte;

	BAD(ob_volume_stat(volume, "/", 0, &stat), error);
	BAD(ob_volume_warnings(volume, &text), error);
	CHECK(!text);
	BAD(ob_volume_sync(volume), error);
	BAD(ob_volume_mkdir(volume, "/d", 0755, 0), error);
	BAD(ob_volume_file_open(volume, "/hello", OB_VOLUME_READ, 0, &other), error);
	CHECK(!other);
	BAD(ob_volume_copy_out(volume, "/", "/nowhere", NULL, NULL), error);
	BAD(ob_volume_file_read(file, &byte, 1, 0), error);
	BAD(ob_volume_file_close(file), error);
	BAD(ob_volume_close(volume), error);
}

static void test_bad_arguments(struct ob_volume *volume)
{
	struct ob_volume_stat stat = { .size = 8 };
	struct ob_volume_options options = { .size = sizeof(options), .flags = 1u << 31 };
	struct ob_volume *other;
	void *data;
	size_t length;

	BAD(ob_volume_stat(volume, NULL, 0, &stat), OB_VOLUME_USAGE);
	BAD(ob_volume_stat(volume, "/", 0, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_stat(volume, "/", 0, &stat), OB_VOLUME_USAGE);
	stat.size = sizeof(stat);
	BAD(ob_volume_stat(volume, "/", 64, &stat), OB_VOLUME_USAGE);
	BAD(ob_volume_read(volume, "/hello", 1, &data, &length), OB_VOLUME_USAGE);
	CHECK(!data && !length);
	BAD(ob_volume_read(volume, "/", 1, &data, &length), OB_VOLUME_OTHER);
	CHECK_EQUAL(ob_volume_errno(), EISDIR);
	BAD(ob_volume_write(volume, "/x", NULL, 1), OB_VOLUME_USAGE);
	BAD(ob_volume_write(volume, "/x", "", SIZE_MAX), OB_VOLUME_USAGE);
	BAD(ob_volume_mkdir(volume, "/d", 0100755, 0), OB_VOLUME_USAGE);
	BAD(ob_volume_tar_out(volume, "/", -1, NULL, NULL), OB_VOLUME_OTHER);
	CHECK_EQUAL(ob_volume_errno(), EBADF);
	BAD(ob_volume_open("x.img", &options, &other), OB_VOLUME_USAGE);
	CHECK(!other);
	BAD(ob_volume_open("x.img", NULL, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_open(NULL, NULL, &other), OB_VOLUME_USAGE);
	options.size = 3;
	BAD(ob_volume_open("x.img", &options, &other), OB_VOLUME_USAGE);
	BAD(ob_volume_sync((struct ob_volume *)0x1000), OB_VOLUME_USAGE);
}

static void test_child(struct ob_volume *volume, struct ob_volume_file *file, const char *name,
		       const char *key)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		check_not_open(volume, file, OB_VOLUME_CLOSED);
		CHECK(strstr(ob_volume_error(), "parent"));
		volume = open_volume(name, key, 0);
		check_contents(volume, "/hello", "hello\n");
		GOOD(ob_volume_close(volume));
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void open_in_vain(const char *name)
{
	struct ob_volume_options options = { .size = sizeof(options), .key = "x", .key_length = 1 };
	struct ob_volume *volume;

	options.vcpus = 2;
	BAD(ob_volume_open(name, &options, &volume), OB_VOLUME_WRONG_KEY);
	CHECK(!volume);
}

/* The kernels of volumes that are closed, or could not be opened, leave no thread and no file. */
static void test_nothing_stays(const char *name, const char *key)
{
	long files = count_entries("/proc/self/fd"), tasks = count_entries("/proc/self/task");

	for (int round = 0; round < 4; round++) {
		struct ob_volume *volume = open_volume(name, key, 0);

		check_contents(volume, "/hello", "hello\n");
		GOOD(ob_volume_close(volume));
		open_in_vain(name);
	}
	CHECK_EQUAL(count_entries("/proc/self/fd"), files);
	CHECK_EQUAL(count_entries("/proc/self/task"), tasks);
}

static void *read_often(void *volume)
{
	for (int count = 0; count < 50; count++)
		check_contents(volume, "/hello", "hello\n");
	return NULL;
}

static void test_threads(struct ob_volume *volume)
{
	pthread_t threads[4];

	for (int index = 0; index < 4; index++)
		CHECK(!pthread_create(&threads[index], NULL, read_often, volume));
	for (int index = 0; index < 4; index++)
		CHECK(!pthread_join(threads[index], NULL));
}

static void read_volume(const char *name, const char *key)
{
	struct ob_volume *volume = open_volume(name, key, 0), *second;
	struct ob_volume_file *file;
	char buffer[16], *text;

	check_contents(volume, "/hello", "hello\n");
	GOOD(ob_volume_file_open(volume, "/hello", OB_VOLUME_READ, 0, &file));
	CHECK_EQUAL(ob_volume_file_read(file, buffer, sizeof(buffer), 2), 4);
	CHECK(!memcmp(buffer, "llo\n", 4));
	CHECK_EQUAL(ob_volume_file_read(file, buffer, sizeof(buffer), 6), 0);
	CHECK(ob_volume_file_write(file, "x", 1, 0) < 0);
	CHECK_EQUAL(ob_volume_errno(), EBADF);
	BAD(ob_volume_write(volume, "/new", "x", 1), OB_VOLUME_READ_ONLY);
	CHECK_EQUAL(ob_volume_errno(), EROFS);
	CHECK(strstr(ob_volume_error(), "/new"));
	test_bad_arguments(volume);
	test_list_ends(volume);
	test_threads(volume);
	/* Two readers of one image, each with a kernel. */
	second = open_volume(name, key, 0);
	check_contents(second, "/hello", "hello\n");
	GOOD(ob_volume_close(second));
	BAD(ob_volume_sync(second), OB_VOLUME_CLOSED);
	GOOD(ob_volume_type(volume, &text));
	CHECK(!strcmp(text, "ext4"));
	ob_volume_memory_free(text);
	GOOD(ob_volume_warnings(volume, &text));
	CHECK(!text[0]);
	ob_volume_memory_free(text);
	GOOD(ob_volume_kernel_log(volume, &text));
	ob_volume_memory_free(text);
	test_child(volume, file, name, key);
	GOOD(ob_volume_close(volume));
	test_nothing_stays(name, key);
	BAD(ob_volume_file_close(file), OB_VOLUME_CLOSED);
	check_not_open(volume, file, OB_VOLUME_CLOSED);
	check_not_open(NULL, NULL, OB_VOLUME_USAGE);
}

/* ---- changes ---- */

static void test_attributes(struct ob_volume *volume)
{
	struct ob_volume_time early = { .seconds = -2, .nanoseconds = 500000000 };
	struct ob_volume_time late = { .seconds = 5000000000, .nanoseconds = 1 };
	struct ob_volume_time wrong = { .nanoseconds = 1000000000 };
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	size_t length;
	char *names;
	void *value;

	GOOD(ob_volume_set_mode(volume, "/file", 04750));
	BAD(ob_volume_set_mode(volume, "/file", 0100644), OB_VOLUME_USAGE);
	GOOD(ob_volume_set_owner(volume, "/file", 70000, OB_VOLUME_SAME));
	GOOD(ob_volume_set_mode(volume, "/file", 0640));
	GOOD(ob_volume_set_times(volume, "/file", &early, &late));
	BAD(ob_volume_set_times(volume, "/file", &early, &wrong), OB_VOLUME_USAGE);
	BAD(ob_volume_set_times(volume, "/file", &early, NULL), OB_VOLUME_USAGE);
	GOOD(ob_volume_stat(volume, "/file", 0, &stat));
	CHECK_EQUAL(stat.type, OB_VOLUME_TYPE_REGULAR);
	CHECK_EQUAL(stat.mode, 0640);
	CHECK_EQUAL(stat.user, 70000);
	CHECK_EQUAL(stat.group, 0);
	CHECK_EQUAL(stat.length, 5);
	CHECK(stat.stored > 0 && stat.inode > 1);
	CHECK_EQUAL(stat.links, 1);
	CHECK_EQUAL(stat.accessed.seconds, -2);
	CHECK_EQUAL(stat.accessed.nanoseconds, 500000000);
	CHECK_EQUAL(stat.modified.seconds, 5000000000);
	CHECK_EQUAL(stat.modified.nanoseconds, 1);
	GOOD(ob_volume_set_xattr(volume, "/file", "user.one", "1\0x", 3));
	GOOD(ob_volume_set_xattr(volume, "/file", "user.two", NULL, 0));
	GOOD(ob_volume_xattrs(volume, "/file", &names, &length));
	CHECK_EQUAL(length, sizeof("user.one\0user.two"));
	ob_volume_memory_free(names);
	GOOD(ob_volume_xattr(volume, "/file", "user.one", &value, &length));
	CHECK(length == 3 && !memcmp(value, "1\0x", 3));
	ob_volume_memory_free(value);
	GOOD(ob_volume_remove_xattr(volume, "/file", "user.two"));
	CHECK(ob_volume_xattr(volume, "/file", "user.two", &value, &length) < 0);
	CHECK_EQUAL(ob_volume_errno(), ENODATA);
	CHECK(!value);
}

static void test_names(struct ob_volume *volume)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	char *target;

	GOOD(ob_volume_mkdir(volume, "/a/b/c", 0700, OB_VOLUME_PARENTS));
	GOOD(ob_volume_mkdir(volume, "/a/b/c", 0700, OB_VOLUME_PARENTS));
	BAD(ob_volume_mkdir(volume, "/a", 0700, 0), OB_VOLUME_ALREADY_EXISTS);
	BAD(ob_volume_mkdir(volume, "/file", 0700, OB_VOLUME_PARENTS), OB_VOLUME_ALREADY_EXISTS);
	GOOD(ob_volume_symlink(volume, "b/c", "/a/link"));
	GOOD(ob_volume_readlink(volume, "/a/link", &target));
	CHECK(!strcmp(target, "b/c"));
	ob_volume_memory_free(target);
	GOOD(ob_volume_stat(volume, "/a/link", 0, &stat));
	CHECK_EQUAL(stat.type, OB_VOLUME_TYPE_DIRECTORY);
	CHECK_EQUAL(stat.mode, 0700);
	GOOD(ob_volume_stat(volume, "/a/link", OB_VOLUME_NO_FOLLOW, &stat));
	CHECK_EQUAL(stat.type, OB_VOLUME_TYPE_SYMLINK);
	GOOD(ob_volume_link(volume, "/file", "/a/b/hard"));
	GOOD(ob_volume_stat(volume, "/a/b/hard", 0, &stat));
	CHECK_EQUAL(stat.links, 2);
	check_two_names(volume, "/a", "/a/b 2 1\n", "/a/link 3 1\n");
	check_list(volume, "/a", OB_VOLUME_RECURSIVE,
		   "/a 2 0\n/a/b 2 1\n/a/b/c 2 2\n/a/b/hard 1 2\n/a/link 3 1\n");
	GOOD(ob_volume_rename(volume, "/a/b/hard", "/a/moved"));
	BAD(ob_volume_remove(volume, "/a/b/hard", 0), OB_VOLUME_NOT_FOUND);
	CHECK(ob_volume_remove(volume, "/a", 0) < 0);
	CHECK_EQUAL(ob_volume_errno(), ENOTEMPTY);
	GOOD(ob_volume_remove(volume, "/a/link", 0));
	GOOD(ob_volume_remove(volume, "/a/b/c", 0));
	GOOD(ob_volume_remove(volume, "/a", OB_VOLUME_RECURSIVE));
	check_list(volume, "/", 0, "/file 1 1\n");
}

static void test_file(struct ob_volume *volume)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	struct ob_volume_file *file;
	char buffer[8];

	BAD(ob_volume_file_open(volume, "/data", OB_VOLUME_WRITE, 0, &file), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_file_open(volume, "/data", OB_VOLUME_READ | OB_VOLUME_CREATE, 0, &file),
	    OB_VOLUME_USAGE);
	BAD(ob_volume_file_open(volume, "/data", 0, 0, &file), OB_VOLUME_USAGE);
	GOOD(ob_volume_file_open(volume, "/data",
				 OB_VOLUME_READ | OB_VOLUME_WRITE | OB_VOLUME_CREATE |
					 OB_VOLUME_NEW, 0606, &file));
	CHECK_EQUAL(ob_volume_file_write(file, "data", 4, 4), 4);
	CHECK_EQUAL(ob_volume_file_read(file, buffer, 8, 0), 8);
	CHECK(!memcmp(buffer, "\0\0\0\0data", 8));
	GOOD(ob_volume_file_set_length(file, 6));
	GOOD(ob_volume_file_sync(file));
	GOOD(ob_volume_file_stat(file, &stat));
	CHECK_EQUAL(stat.length, 6);
	/* The umask of this process has no say. */
	CHECK_EQUAL(stat.mode, 0606);
	CHECK(ob_volume_file_read(file, buffer, SIZE_MAX, 0) == OB_VOLUME_USAGE);
	CHECK(ob_volume_file_read(file, NULL, 1, 0) == OB_VOLUME_USAGE);
	CHECK(ob_volume_file_read(file, buffer, 1, UINT64_MAX) < 0);
	GOOD(ob_volume_file_close(file));
	BAD(ob_volume_file_open(volume, "/data", OB_VOLUME_WRITE | OB_VOLUME_CREATE | OB_VOLUME_NEW,
				0600, &file), OB_VOLUME_ALREADY_EXISTS);
	GOOD(ob_volume_file_open(volume, "/data", OB_VOLUME_WRITE | OB_VOLUME_TRUNCATE, 0, &file));
	/* This one stays open: the close of the volume ends it. */
	CHECK_EQUAL(ob_volume_file_write(file, "left open", 9, 0), 9);
}

static void write_volume(const char *name, const char *key)
{
	struct ob_volume *volume = open_volume(name, key, OB_VOLUME_WRITABLE), *other;
	struct ob_volume_space space = { .size = sizeof(space) };
	struct ob_volume_options options = { .size = sizeof(options), .key_file = key };

	BAD(ob_volume_open(name, &options, &other), OB_VOLUME_LOCKED);
	CHECK(!other);
	GOOD(ob_volume_write(volume, "/file", "first contents", 14));
	GOOD(ob_volume_write(volume, "/file", "text\n", 5));
	check_contents(volume, "/file", "text\n");
	test_attributes(volume);
	test_names(volume);
	test_file(volume);
	GOOD(ob_volume_space(volume, &space));
	CHECK(space.bytes > space.free && space.free >= space.available && space.available > 0);
	CHECK(space.block_size >= 1024 && space.files > space.files_free);
	GOOD(ob_volume_sync(volume));
	GOOD(ob_volume_close(volume));
	volume = open_volume(name, key, 0);
	check_contents(volume, "/data", "left open");
	GOOD(ob_volume_close(volume));
}

/* ---- a panic of the kernel ---- */

/* Stays in its call. */
static void *fall_into_trap(void *volume)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };

	ob_volume_stat(volume, "/trap", 0, &stat);
	fprintf(stderr, "/trap is none: %s\n", ob_volume_error());
	_Exit(1);
}

static bool log_has(struct ob_volume *volume, const char *words)
{
	char *text;
	bool has;

	GOOD(ob_volume_kernel_log(volume, &text));
	has = strstr(text, words);
	ob_volume_memory_free(text);
	return has;
}

static void check_crashed(struct ob_volume *volume, struct ob_volume_file *file,
			  const char *host_path)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	struct ob_volume_space space = { .size = sizeof(space) };
	struct names names = { .volume = volume };
	char byte;

	BAD(ob_volume_stat(volume, "/hello", 0, &stat), OB_VOLUME_CRASHED);
	BAD(ob_volume_write(volume, "/new", "x", 1), OB_VOLUME_CRASHED);
	BAD(ob_volume_mkdir(volume, "/d", 0755, 0), OB_VOLUME_CRASHED);
	BAD(ob_volume_list(volume, "/", 0, add_name, &names), OB_VOLUME_CRASHED);
	BAD(ob_volume_copy_out(volume, "/hello", host_path, NULL, NULL), OB_VOLUME_CRASHED);
	BAD(ob_volume_space(volume, &space), OB_VOLUME_CRASHED);
	BAD(ob_volume_sync(volume), OB_VOLUME_CRASHED);
	BAD(ob_volume_file_read(file, &byte, 1, 0), OB_VOLUME_CRASHED);
	BAD(ob_volume_file_write(file, "x", 1, 0), OB_VOLUME_CRASHED);
	BAD(ob_volume_file_sync(file), OB_VOLUME_CRASHED);
	CHECK(log_has(volume, "EXT4-fs error"));
}

/* A panic ends neither the process nor another volume. */
static void contain_panic(const char *name, const char *other_name)
{
	uint32_t flags = OB_VOLUME_WRITABLE | OB_VOLUME_CONTAIN_PANIC;
	struct ob_volume *volume = open_volume(name, NULL, flags);
	struct ob_volume *other = open_volume(other_name, NULL, 0);
	struct ob_volume_file *file;
	pthread_t thread;
	char copy[4096];

	GOOD(ob_volume_file_open(volume, "/hello", OB_VOLUME_READ | OB_VOLUME_WRITE, 0, &file));
	CHECK(!pthread_create(&thread, NULL, fall_into_trap, volume));
	while (!log_has(volume, "panic"))
		check_contents(other, "/hello", "hello\n");
	/*
	 * Linux logs the panic before the library refuses calls, and a call in between stays in the
	 * dead kernel. No call can tell when that time is over.
	 */
	sleep(3);
	snprintf(copy, sizeof(copy), "%s.copy", other_name);
	check_crashed(volume, file, copy);
	BAD(ob_volume_close(volume), OB_VOLUME_CRASHED);
	CHECK(strstr(ob_volume_error(), name));
	check_not_open(volume, file, OB_VOLUME_CLOSED);
	/* Threads are in the dead kernel still, so its image is not free. */
	BAD(ob_volume_open(name, NULL, &volume), OB_VOLUME_LOCKED);
	check_contents(other, "/hello", "hello\n");
	GOOD(ob_volume_close(other));
	/* The process can have more kernels. */
	other = open_volume(other_name, NULL, OB_VOLUME_CONTAIN_PANIC);
	check_contents(other, "/hello", "hello\n");
	GOOD(ob_volume_close(other));
}

/* ---- snapshots ---- */

/* How many mappings of this process are of files whose names have these words. */
static int mapped(const char *words)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int count = 0;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, words) != NULL;
	fclose(maps);
	return count;
}

/* `start`: whether the kernels of two volumes start from snapshots that are in `directory`. */
static void use_snapshots(const char *name, const char *directory, bool start)
{
	struct ob_volume_options options = { .size = sizeof(options), .snapshots = directory };
	struct ob_volume *volume, *other;
	int first;

	GOOD(ob_volume_open(name, &options, &volume));
	first = mapped(".snapshot");
	CHECK_EQUAL(first > 0, start);
	GOOD(ob_volume_open(name, &options, &other));
	CHECK_EQUAL(mapped(".snapshot") > first, start);
	check_contents(other, "/hello", "hello\n");
	check_contents(volume, "/hello", "hello\n");
	GOOD(ob_volume_close(volume));
	check_contents(other, "/hello", "hello\n");
	GOOD(ob_volume_close(other));
	CHECK_EQUAL(mapped(".snapshot"), 0);
}

/* ---- what only fails ---- */

static void fail(const char *name, const char *key, const char *error)
{
	struct ob_volume_options options = { .size = sizeof(options) };
	struct ob_volume *volume = (struct ob_volume *)1;
	int result;

	options.key = *key ? key : NULL;
	options.key_length = strlen(key);
	result = ob_volume_open(name, &options, &volume);
	CHECK(!volume);
	printf("%s: %s\n", ob_volume_error_name(result), ob_volume_error());
	printf("kernel: %s\n", ob_volume_error_kernel_log());
	fflush(stdout);
	CHECK(!strcmp(ob_volume_error_name(result), error));
}

int main(int count, char **arguments)
{
	umask(027);
	CHECK(count >= 4);
	CHECK(ob_volume_version()[0] && !strcmp(ob_volume_error_name(0), "ok"));
	CHECK(!ob_volume_error()[0] && !ob_volume_errno() && !ob_volume_error_kernel_log()[0]);
	if (!strcmp(arguments[1], "read"))
		read_volume(arguments[2], arguments[3]);
	else if (!strcmp(arguments[1], "write"))
		write_volume(arguments[2], arguments[3]);
	else if (!strcmp(arguments[1], "panic"))
		contain_panic(arguments[2], arguments[3]);
	else if (!strcmp(arguments[1], "boot"))
		use_snapshots(arguments[2], arguments[3], false);
	else if (!strcmp(arguments[1], "start"))
		use_snapshots(arguments[2], arguments[3], true);
	else
		fail(arguments[2], arguments[3], arguments[4]);
	CHECK_EQUAL(umask(0), 027);
	return 0;
}
