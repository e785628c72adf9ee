/* SPDX-License-Identifier: GPL-2.0-only */
/* A check of a driver. The first that fails is in the kernel's log, and the function returns. */
#ifndef OUTBOARD_TESTS_EXPECT_H
#define OUTBOARD_TESTS_EXPECT_H

#define EXPECT(condition)								\
	do {										\
		if (!(condition)) {							\
			pr_err(KBUILD_MODNAME ":%d: failed: %s\n", __LINE__, #condition);	\
			return -EINVAL;							\
		}									\
	} while (0)

#endif
