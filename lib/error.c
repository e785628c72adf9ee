// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reasons of failures: see error.h. They are on the heap, because a library that is loaded by
 * dlopen() has little thread-local storage.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <outboard/net.h>

#include "error.h"

struct reasons {
	char text[OB_ERROR_SUBJECTS][OB_ERROR_BYTES];
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool has_key;

static void make_key(void)
{
	has_key = !pthread_key_create(&key, free);
}

/* NULL: no call of this thread has failed yet, or there is no memory. */
static struct reasons *reasons_of_thread(bool make)
{
	struct reasons *reasons;

	pthread_once(&key_once, make_key);
	if (!has_key)
		return NULL;
	reasons = pthread_getspecific(key);
	if (reasons || !make)
		return reasons;
	reasons = calloc(1, sizeof(*reasons));
	if (reasons && pthread_setspecific(key, reasons)) {
		free(reasons);
		return NULL;
	}
	return reasons;
}

void ob_error_clear(enum ob_error_subject subject)
{
	struct reasons *reasons = reasons_of_thread(false);

	if (reasons)
		reasons->text[subject][0] = '\0';
}

int ob_error_set(enum ob_error_subject subject, int error, const char *format, ...)
{
	struct reasons *reasons = reasons_of_thread(true);
	va_list arguments;

	va_start(arguments, format);
	if (reasons)
		vsnprintf(reasons->text[subject], OB_ERROR_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

const char *ob_error_text(enum ob_error_subject subject)
{
	struct reasons *reasons = reasons_of_thread(false);

	return reasons ? reasons->text[subject] : "";
}

const char *ob_net_error(void)
{
	return ob_error_text(OB_ERROR_NET);
}
