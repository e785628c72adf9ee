// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: the tree of a server.
 *
 *   volume_server_test good NAME [KEY]
 *   volume_server_test refused NAME ERROR [KEY]
 *   volume_server_test silent NAME [KEY]
 *   volume_server_test ended NAME [KEY]
 *   volume_server_test slow NAME [KEY]
 *
 * silent, ended: prints "open" and waits for a line. From then on the server must not answer, or
 * must end all connections. slow: prints "late" later, and waits again. From then on the server
 * must answer.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "volume_check.h"

static struct ob_volume_options options_of(const char *key)
{
	struct ob_volume_options options = {
		.size = sizeof(options), .network = "host", .server_timeout = 2
	};

	options.flags = OB_VOLUME_WRITABLE;
	options.key_file = key;
	return options;
}

static struct ob_volume *open_server(const char *name, const char *key)
{
	struct ob_volume_options options = options_of(key);
	struct ob_volume *volume;

	GOOD(ob_volume_open(name, &options, &volume));
	return volume;
}

/* A child leaves the volume of its parent, and the network of its kernel, alone. */
static void test_fork(struct ob_volume *volume)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		BAD(ob_volume_stat(volume, "/made/file", 0, &stat), OB_VOLUME_CLOSED);
		BAD(ob_volume_close(volume), OB_VOLUME_CLOSED);
		_Exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	GOOD(ob_volume_stat(volume, "/made/file", 0, &stat));
}

static void test_good(const char *name, const char *key)
{
	struct ob_volume_options options = options_of(key);
	struct ob_volume *volume = open_server(name, key);
	struct ob_volume_disk *disk;

	GOOD(ob_volume_mkdir(volume, "/made", 0755, 0));
	GOOD(ob_volume_write(volume, "/made/file", "text", 4));
	check_contents(volume, "/made/file", "text");
	test_fork(volume);
	GOOD(ob_volume_sync(volume));
	GOOD(ob_volume_close(volume));
	BAD(ob_volume_close(volume), OB_VOLUME_CLOSED);
	options.flags = 0;
	GOOD(ob_volume_open(name, &options, &volume));
	check_contents(volume, "/made/file", "text");
	BAD(ob_volume_write(volume, "/made/file", "other", 5), OB_VOLUME_READ_ONLY);
	GOOD(ob_volume_close(volume));
	BAD(ob_volume_disk_open(name, &options, &disk), OB_VOLUME_USAGE);
}

/* The number of entries of a directory. */
static int count(const char *path)
{
	DIR *directory = opendir(path);
	int number = 0;

	CHECK(directory);
	while (readdir(directory))
		number++;
	closedir(directory);
	return number;
}

static void *cancel_soon(void *cancel)
{
	usleep(300000);
	GOOD(ob_volume_cancel_calls(cancel));
	return NULL;
}

/* A name that no call has asked for: no cache has it. */
static int stat_new(struct ob_volume *volume)
{
	struct ob_volume_stat stat = { .size = sizeof(stat) };
	static int number;
	char name[32];

	snprintf(name, sizeof(name), "/missing-%d", ++number);
	return ob_volume_stat(volume, name, 0, &stat);
}

static void test_limits(struct ob_volume *volume)
{
	struct ob_volume_cancel *cancel;
	pthread_t thread;

	GOOD(ob_volume_limit(300, NULL));
	BAD(stat_new(volume), OB_VOLUME_TIMED_OUT);
	GOOD(ob_volume_cancel_new(&cancel));
	GOOD(ob_volume_limit(0, cancel));
	CHECK_EQUAL(pthread_create(&thread, NULL, cancel_soon, cancel), 0);
	BAD(stat_new(volume), OB_VOLUME_INTERRUPTED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	GOOD(ob_volume_limit(0, NULL));
	GOOD(ob_volume_cancel_free(cancel));
}

static void wait_for_line(const char *word)
{
	puts(word);
	fflush(stdout);
	CHECK_EQUAL(getchar(), '\n');
}

static void test_lost(const char *name, const char *key, int is_silent)
{
	static const char data[1 << 20];
	struct ob_volume *volume = open_server(name, key);
	struct ob_volume_file *file;
	int descriptors, threads, tries = 0;

	GOOD(ob_volume_close(volume));
	descriptors = count("/proc/self/fd");
	threads = count("/proc/self/task");
	volume = open_server(name, key);
	GOOD(ob_volume_file_open(volume, "/new", OB_VOLUME_WRITE | OB_VOLUME_CREATE, 0644, &file));
	GOOD(ob_volume_file_write(file, data, sizeof(data), 0));
	wait_for_line("open");
	if (is_silent)
		test_limits(volume);
	/* The limit of the server alone ends these. */
	CHECK(stat_new(volume) < 0);
	CHECK(ob_volume_file_sync(file) < 0);
	ob_volume_file_close(file);
	/* Data are lost. */
	CHECK(ob_volume_close(volume) < 0);
	CHECK_EQUAL(count("/proc/self/fd"), descriptors);
	/* A thread ends a moment after its last work. */
	while (count("/proc/self/task") > threads) {
		CHECK(++tries < 1000);
		usleep(10000);
	}
}

static void test_slow(const char *name, const char *key)
{
	struct ob_volume *volume = open_server(name, key);

	wait_for_line("open");
	GOOD(ob_volume_limit(300, NULL));
	BAD(stat_new(volume), OB_VOLUME_TIMED_OUT);
	GOOD(ob_volume_limit(0, NULL));
	wait_for_line("late");
	/* Longer than a server may seem to owe an answer before it is given up. */
	sleep(30);
	BAD(stat_new(volume), OB_VOLUME_NOT_FOUND);
	GOOD(ob_volume_close(volume));
}

static void test_refused(const char *name, const char *error, const char *key)
{
	struct ob_volume_options options = options_of(key);
	struct ob_volume *volume;
	int result = ob_volume_open(name, &options, &volume);

	CHECK(result < 0);
	CHECK(!volume);
	if (strcmp(ob_volume_error_name(result), error)) {
		fprintf(stderr, "%s: %s\n", ob_volume_error_name(result), ob_volume_error());
		_Exit(1);
	}
	CHECK(strstr(ob_volume_error(), name));
}

int main(int argc, char **argv)
{
	const char *key = argc > 3 ? argv[3] : NULL;

	CHECK(argc >= 3);
	if (!strcmp(argv[1], "refused"))
		test_refused(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
	else if (!strcmp(argv[1], "slow"))
		test_slow(argv[2], key);
	else if (!strcmp(argv[1], "good"))
		test_good(argv[2], key);
	else
		test_lost(argv[2], key, !strcmp(argv[1], "silent"));
	return 0;
}
