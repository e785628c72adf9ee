// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: disks with several volumes.
 *
 *   volume_disk_test NAME   a qcow2 that is based on NAME.base, with ext4 in its partitions 1 and 2
 *
 * Each file system has a file /hello.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "volume_check.h"

static struct ob_volume_disk *open_disk(const char *name, uint32_t flags)
{
	struct ob_volume_options options = { .size = sizeof(options), .flags = flags };
	struct ob_volume_disk *disk;

	options.vcpus = 2;
	GOOD(ob_volume_disk_open(name, &options, &disk));
	return disk;
}

static struct ob_volume *volume_of(struct ob_volume_disk *disk, const char *name, uint32_t flags)
{
	struct ob_volume *volume;

	GOOD(ob_volume_disk_volume(disk, name, flags, &volume));
	return volume;
}

/* ---- what is in it ---- */

struct list {
	struct ob_volume_disk *disk;
	char text[1024];
	int stop;
};

static int add_volume(void *context, const struct ob_volume_info *info)
{
	struct list *list = context;
	char line[256];

	CHECK_EQUAL(info->size, sizeof(*info));
	CHECK(!info->problem && !info->is_locked);
	CHECK(info->is_file_system == !strcmp(info->type ? info->type : "", "ext4"));
	/* A callback may call, but not close. */
	BAD(ob_volume_disk_close(list->disk), OB_VOLUME_USAGE);
	CHECK(ob_volume_disk_length(list->disk) > 0);
	snprintf(line, sizeof(line), "%s %s %s %lu\n", info->name, info->sort,
		 info->type ? info->type : "-", (unsigned long)info->length);
	strcat(list->text, line);
	return list->stop;
}

static void test_list(struct ob_volume_disk *disk)
{
	struct list list = { .disk = disk };

	GOOD(ob_volume_disk_list(disk, add_volume, &list));
	if (strcmp(list.text, "1 partition ext4 33554432\n2 partition ext4 33554432\n")) {
		fprintf(stderr, "it has\n%s", list.text);
		_Exit(1);
	}
	list.stop = 7;
	CHECK_EQUAL(ob_volume_disk_list(disk, add_volume, &list), 7);
	list.stop = -1;
	BAD(ob_volume_disk_list(disk, add_volume, &list), OB_VOLUME_INTERRUPTED);
	BAD(ob_volume_disk_list(disk, NULL, NULL), OB_VOLUME_USAGE);
}

static void test_image(struct ob_volume_disk *disk, const char *name)
{
	char *format, *paths, base[4096];
	size_t length;

	GOOD(ob_volume_disk_format(disk, &format));
	CHECK(!strcmp(format, "qcow2"));
	ob_volume_memory_free(format);
	CHECK_EQUAL(ob_volume_disk_length(disk), 68 << 20);
	CHECK_EQUAL(ob_volume_disk_sector_size(disk), 512);
	snprintf(base, sizeof(base), "%s.base", name);
	GOOD(ob_volume_disk_backing(disk, &paths, &length));
	CHECK_EQUAL(length, strlen(base) + 1);
	CHECK(!strcmp(paths, base));
	ob_volume_memory_free(paths);
}

/* ---- handles ---- */

static void check_not_open(struct ob_volume_disk *disk, int error)
{
	struct list list = { .disk = disk };
	struct ob_volume *volume = (struct ob_volume *)1;
	char *text = (char *)"untouched";
	size_t length = 1;

	BAD(ob_volume_disk_volume(disk, "1", 0, &volume), error);
	CHECK(!volume);
	BAD(ob_volume_disk_format(disk, &text), error);
	CHECK(!text);
	BAD(ob_volume_disk_length(disk), error);
	BAD(ob_volume_disk_sector_size(disk), error);
	BAD(ob_volume_disk_backing(disk, &text, &length), error);
	CHECK(!length);
	BAD(ob_volume_disk_list(disk, add_volume, &list), error);
	BAD(ob_volume_disk_close(disk), error);
}

static void test_bad_arguments(struct ob_volume_disk *disk, struct ob_volume *volume,
			       const char *name)
{
	struct ob_volume_options options = { .size = sizeof(options), .flags = 1u << 31 };
	struct ob_volume_disk *other = (struct ob_volume_disk *)1;
	struct ob_volume *second;
	char partition[4096];

	BAD(ob_volume_disk_open(NULL, NULL, &other), OB_VOLUME_USAGE);
	CHECK(!other);
	BAD(ob_volume_disk_open(name, NULL, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_disk_open(name, &options, &other), OB_VOLUME_USAGE);
	snprintf(partition, sizeof(partition), "%s@1", name);
	BAD(ob_volume_disk_open(partition, NULL, &other), OB_VOLUME_USAGE);
	snprintf(partition, sizeof(partition), "%s.none", name);
	BAD(ob_volume_disk_open(partition, NULL, &other), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_disk_volume(disk, NULL, 0, &second), OB_VOLUME_USAGE);
	BAD(ob_volume_disk_volume(disk, "1", OB_VOLUME_RAW, &second), OB_VOLUME_USAGE);
	BAD(ob_volume_disk_volume(disk, "1", 0, NULL), OB_VOLUME_USAGE);
	BAD(ob_volume_disk_volume(disk, "9", 0, &second), OB_VOLUME_NOT_FOUND);
	BAD(ob_volume_disk_volume(disk, "", 0, &second), OB_VOLUME_AMBIGUOUS);
	CHECK(!second);
	/* A handle of another kind is none. */
	BAD(ob_volume_disk_close((struct ob_volume_disk *)volume), OB_VOLUME_USAGE);
	BAD(ob_volume_close((struct ob_volume *)disk), OB_VOLUME_USAGE);
	check_not_open(NULL, OB_VOLUME_USAGE);
}

static void test_child(struct ob_volume_disk *disk, struct ob_volume *volume)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		check_not_open(disk, OB_VOLUME_CLOSED);
		CHECK(strstr(ob_volume_error(), "parent"));
		BAD(ob_volume_close(volume), OB_VOLUME_CLOSED);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- several volumes ---- */

static void *open_often(void *disk)
{
	for (int count = 0; count < 20; count++) {
		struct ob_volume *volume = volume_of(disk, "2", 0);

		check_contents(volume, "/hello", "hello\n");
		GOOD(ob_volume_close(volume));
	}
	return NULL;
}

static void test_threads(struct ob_volume_disk *disk)
{
	pthread_t threads[4];

	for (int index = 0; index < 4; index++)
		CHECK(!pthread_create(&threads[index], NULL, open_often, disk));
	for (int index = 0; index < 4; index++)
		CHECK(!pthread_join(threads[index], NULL));
}

static void read_disk(const char *name)
{
	struct ob_volume_disk *disk = open_disk(name, 0);
	struct ob_volume *volume = volume_of(disk, "1", 0), *other;

	test_image(disk, name);
	test_list(disk);
	test_bad_arguments(disk, volume, name);
	BAD(ob_volume_disk_volume(disk, "1", OB_VOLUME_WRITABLE, &other), OB_VOLUME_READ_ONLY);
	test_threads(disk);
	check_contents(volume, "/hello", "hello\n");
	test_child(disk, volume);
	GOOD(ob_volume_close(volume));
	GOOD(ob_volume_disk_close(disk));
	check_not_open(disk, OB_VOLUME_CLOSED);
}

static void write_disk(const char *name)
{
	struct ob_volume_disk *disk = open_disk(name, OB_VOLUME_WRITABLE), *other;
	struct ob_volume *one = volume_of(disk, "1", OB_VOLUME_WRITABLE), *two;

	BAD(ob_volume_disk_open(name, NULL, &other), OB_VOLUME_LOCKED);
	BAD(ob_volume_disk_volume(disk, "1", 0, &two), OB_VOLUME_LOCKED);
	CHECK(strstr(ob_volume_error(), "@1"));
	two = volume_of(disk, "2", OB_VOLUME_WRITABLE);
	GOOD(ob_volume_write(one, "/new", "one", 3));
	GOOD(ob_volume_copy(one, "/new", two, "/copy", NULL, NULL));
	GOOD(ob_volume_close(one));
	BAD(ob_volume_disk_close(disk), OB_VOLUME_IN_USE);
	CHECK(strstr(ob_volume_error(), "@2"));
	check_not_open(disk, OB_VOLUME_CLOSED);
	check_contents(two, "/copy", "one");
	BAD(ob_volume_disk_open(name, NULL, &other), OB_VOLUME_LOCKED);
	GOOD(ob_volume_close(two));
	disk = open_disk(name, 0);
	two = volume_of(disk, "2", 0);
	check_contents(two, "/copy", "one");
	GOOD(ob_volume_close(two));
	GOOD(ob_volume_disk_close(disk));
}

int main(int count, char **arguments)
{
	long files, tasks;

	CHECK_EQUAL(count, 2);
	read_disk(arguments[1]);
	files = count_entries("/proc/self/fd");
	tasks = count_entries("/proc/self/task");
	write_disk(arguments[1]);
	CHECK_EQUAL(count_entries("/proc/self/fd"), files);
	CHECK_EQUAL(count_entries("/proc/self/task"), tasks);
	return 0;
}
