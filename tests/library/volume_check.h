/* SPDX-License-Identifier: GPL-2.0-only */
/* Code that the tests of outboard/volume.h share. */
#ifndef OUTBOARD_TESTS_VOLUME_CHECK_H
#define OUTBOARD_TESTS_VOLUME_CHECK_H

#include <string.h>

#include <outboard/volume.h>

#include "check.h"
#include "entries.h"

/* A call must succeed; its message is shown otherwise. */
#define GOOD(call)                                                                             \
	do {                                                                                   \
		if ((call) < 0) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,          \
				ob_volume_error());                                          \
			_Exit(1);                                                              \
		}                                                                              \
	} while (0)

/* A call must fail like this, and have a message. */
#define BAD(call, error)                                                                       \
	do {                                                                                   \
		CHECK_EQUAL(call, error);                                                      \
		CHECK(ob_volume_error()[0]);                                                 \
	} while (0)

static inline struct ob_volume *open_volume(const char *name, const char *key, uint32_t flags)
{
	struct ob_volume_options options = { .size = sizeof(options), .flags = flags };
	struct ob_volume *volume;

	options.key_file = key;
	options.vcpus = 2;
	GOOD(ob_volume_open(name, &options, &volume));
	return volume;
}

static inline void check_contents(struct ob_volume *volume, const char *path, const char *expected)
{
	void *data;
	size_t length;

	GOOD(ob_volume_read(volume, path, 1 << 20, &data, &length));
	CHECK_EQUAL(length, strlen(expected));
	CHECK(!strcmp(data, expected));
	ob_volume_memory_free(data);
}

#endif
