/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks for the C tests: the first that fails is named, and the program ends. */
#ifndef OUTBOARD_TESTS_CHECK_H
#define OUTBOARD_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* How the program ends. A fuzz target needs another end. */
#ifndef CHECK_FAILED
#define CHECK_FAILED() _Exit(1)
#endif

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__,    \
				#condition);                                          \
			CHECK_FAILED();                                               \
		}                                                                     \
	} while (0)

/* Both sides are long; their values are shown. */
#define CHECK_EQUAL(got, wanted)                                                      \
	do {                                                                          \
		long got_ = (long)(got), wanted_ = (long)(wanted);                    \
		if (got_ != wanted_) {                                                \
			fprintf(stderr, "%s:%d: %s is %ld, not %s (%ld)\n", __FILE__, \
				__LINE__, #got, got_, #wanted, wanted_);              \
			CHECK_FAILED();                                               \
		}                                                                     \
	} while (0)

#endif
