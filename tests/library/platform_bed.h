/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the tests of the POSIX platform. Each test runs in a process of its own,
 * because most of what is tested belongs to a process. Link with platform_bed.c.
 */
#ifndef OUTBOARD_TESTS_PLATFORM_BED_H
#define OUTBOARD_TESTS_PLATFORM_BED_H

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

#include <outboard/platform_host.h>

#include "check.h"
#include "mock_kernel.h"

#define MB (1ull << 20)
#define RAM_SIZE (64 * MB)
#define WINDOW_SIZE (32 * MB)
#define ALL_ACCESS (OB_PROTECTION_READ | OB_PROTECTION_WRITE | OB_PROTECTION_EXECUTE)

struct platform_test {
	const char *name;
	void (*run)(void);
};

#define TEST(name) { #name, test_##name }

/* Each ends with one without a name. */
extern const struct platform_test memory_tests[], signal_tests[];

extern uint64_t regions[OB_REGIONS];

void start(void);
void reserve_all(void);
void setup(void);

/* Runs fn in a child; returns how it ended. */
int status_of_child(void (*fn)(void));

/* Runs each test in a child: those of these names, or all if there are none. How many failed. */
int run_platform_tests(const struct platform_test *tests, int count, char **names);

/* A word that threads wait for. */
void set_flag(uint32_t value);
void wait_for_flag(uint32_t value);

#endif
