// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory grows with pages from below Linux's mark `min`. An allocation of another task that finds
 * more than that takes a batch for its vCPU: so all vCPUs together leave the rest, however long the
 * host keeps the task that lets memory grow.
 *
 * Two threads fill files, a third one reads /proc/zoneinfo meanwhile.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define MB (1ul << 20)
#define VCPUS 3
#define WRITERS 2
#define FILE_MB 1200
/* Pages that growing itself takes. */
#define GROWING 64

static char block[MB];
static bool done;

static void *fill(void *name)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, name, O_CREAT | O_WRONLY, 0600));

	for (int i = 0; i < FILE_MB; i++)
		CHECK_EQUAL(OK(ob_sys_write(file, block, MB)), (long)MB);
	OK(ob_sys_close(file));
	return NULL;
}

/* The number behind a word, the first one after *place. */
static long number_after(const char **place, const char *word)
{
	*place = strstr(*place, word);
	CHECK(*place);
	*place += strlen(word);
	return atol(*place);
}

/* All memory is in one zone. Returns how many pages it has. */
static long look(void)
{
	static char text[1 << 16];
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/zoneinfo", O_RDONLY, 0));
	long bytes = OK(ob_sys_read(file, text, sizeof(text) - 1)), pages, least, batch, managed;
	const char *place = text;

	OK(ob_sys_close(file));
	text[bytes] = 0;
	pages = number_after(&place, "pages free");
	least = number_after(&place, "min ");
	managed = number_after(&place, "managed ");
	batch = number_after(&place, "batch:");
	if (pages < least - VCPUS * batch - GROWING)
		fprintf(stderr, "%ld of %ld pages free, min is %ld, a batch %ld\n", pages, managed,
			least, batch);
	CHECK(pages >= least - VCPUS * batch - GROWING);
	return managed;
}

static void *watch(void *first)
{
	long pages = 0;

	*(long *)first = look();
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		pages = look();
	CHECK(pages >= 4 * *(long *)first);
	return NULL;
}

int main(void)
{
	struct ob_config config = { .size = sizeof(config), .vcpus = VCPUS, .memory = 8192 * MB,
				    .log_level = OB_LOG_DEFAULT };
	char *names[WRITERS] = { "/big/a", "/big/b" };
	pthread_t writers[WRITERS], watcher;
	long first;

	CHECK_EQUAL(ob_boot(&config), 0);
	OK(ob_sys_mkdir("/big", 0755));
	OK(ob_sys_mount("big", "/big", "tmpfs", 0, NULL));
	CHECK_EQUAL(pthread_create(&watcher, NULL, watch, &first), 0);
	for (int i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_create(&writers[i], NULL, fill, names[i]), 0);
	for (int i = 0; i < WRITERS; i++)
		CHECK_EQUAL(pthread_join(writers[i], NULL), 0);
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	CHECK_EQUAL(pthread_join(watcher, NULL), 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
