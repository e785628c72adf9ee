/* SPDX-License-Identifier: GPL-2.0-only */
/* The common part of the tests of drivers: a kernel on the mock platform, with a PCI device. */
#ifndef OUTBOARD_TESTS_DEVICE_BED_H
#define OUTBOARD_TESTS_DEVICE_BED_H

#include "check.h"
#include "mock.h"

#define MB (1ul << 20)
#define ALL_VCPUS (-1)

/* The kernel of the functions below, and of CALL(). */
extern struct ob_host *host;

/* Of a file or of the log: see below. */
extern char text[16384];

#define CALL(number, a, b, c, d, e) \
	mock_call(host, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

/* Loads a kernel, with one vCPU unless `options` have more. */
void load(const char *image, const struct mock_device *device, struct mock_options options);

/* Boots it, and mounts /sys. */
void boot(void);

/* Both. */
void start_with(const char *image, const struct mock_device *device, struct mock_options options);

/* Halts the kernel, and frees it. */
void stop_host(void);

void write_file(const char *path, const char *value);

/* Reads the file into `text`. */
void read_file(const char *path);

/* Reads the kernel's log into `text`. It contains `message`. */
void check_log(const char *message);

/*
 * How often a vCPU has handled the interrupt of that name; ALL_VCPUS: the sum of all vCPUs. Stores
 * Linux's number of the interrupt.
 */
long handled(const char *name, int vcpu, long *irq);

/* Loads a module of the tests with these parameters. It can be loaded if its checks pass. */
void load_driver(const char *path, const char *parameters);

#endif
