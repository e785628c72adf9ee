// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program that test_gdb.py examines. Threads wait in the kernel in known places, one is out in
 * host code; each prints its name and its number on the host. Arguments:
 *
 *   (none)             prints "ready" and waits to be killed
 *   FILE PARAMETERS    loads a module first
 *   fault              has faults that the library handles, and then one of its own
 *   two                boots a second kernel, with a thread that waits there
 *   two FILE PARAMETERS
 *                      loads a module into the second kernel then
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../library/client.h"

static int pipe_ends[2];
static uint32_t futex_word;
static volatile int out_in_host_code;
static volatile long reader, waiter;	/* their numbers in the kernel */

static void set_name(const char *name)
{
	OK(ob_sys_prctl(PR_SET_NAME, (unsigned long)name, 0, 0, 0));
	printf("%s %d\n", name, gettid());
	fflush(stdout);
}

static void *read_empty_pipe(void *unused)
{
	char byte;

	(void)unused;
	set_name("pipe-reader");
	reader = OK(ob_sys_gettid());
	OK(ob_sys_read(pipe_ends[0], &byte, 1));
	return NULL;
}

static void *wait_for_futex(void *unused)
{
	(void)unused;
	set_name("futex-waiter");
	waiter = OK(ob_sys_gettid());
	OK(ob_sys_futex(&futex_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
	return NULL;
}

static __attribute__((noinline)) void stay_in_host_code(void)
{
	out_in_host_code = 1;
	for (;;)
		pause();
}

static void *leave_the_kernel(void *unused)
{
	(void)unused;
	set_name("gone-out");
	stay_in_host_code();
	return NULL;
}

static void log_a_line(void)
{
	static const char line[] = "<4>gdb_target: a line of ours\n";
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/dev/kmsg", O_WRONLY, 0));

	CHECK_EQUAL(OK(ob_sys_write(fd, line, sizeof(line) - 1)), sizeof(line) - 1);
	OK(ob_sys_close(fd));
}

/* A page fault in the client window, and a pointer that the kernel finds to be bad. */
static void fault_as_one_may(void)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/tmp/mapped", O_RDWR | O_CREAT, 0600));
	char *page;

	OK(ob_sys_ftruncate(fd, 4096));
	page = (char *)OK(ob_sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	page[0] = 'x';
	CHECK(ob_sys_write(fd, client_border(), 1) == -1 && errno == EFAULT);
}

static __attribute__((noinline)) void fault_of_our_own(void)
{
	*(volatile int *)16 = 1;
}

static struct ob_instance *second;
static int second_ends[2];
static volatile long second_reader;	/* its number in the second kernel */

static void *read_second_pipe(void *unused)
{
	char byte;

	(void)unused;
	OK(ob_sys_prctl_on(second, PR_SET_NAME, (unsigned long)"second-reader", 0, 0, 0));
	printf("second-reader %d\n", gettid());
	second_reader = OK(ob_sys_gettid_on(second));
	OK(ob_sys_read_on(second, second_ends[0], &byte, 1));
	return NULL;
}

static bool sleeps_in_second(long number)
{
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/status", number);
	fd = ob_sys_openat_on(second, AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0)
		return false;
	OK(ob_sys_read_on(second, fd, text, sizeof(text) - 1));
	OK(ob_sys_close_on(second, fd));
	return strstr(text, "State:\tS");
}

static void boot_second(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .memory = 64 << 20, .log_level = OB_LOG_DEFAULT,
	};
	static const char line[] = "<4>gdb_target: a line of the second\n";
	pthread_t thread;
	int fd;

	CHECK_EQUAL(ob_instance_new(&second), 0);
	CHECK_EQUAL(ob_boot_on(second, &config), 0);
	fd = (int)OK(ob_sys_openat_on(second, AT_FDCWD, "/dev/kmsg", O_WRONLY, 0));
	CHECK_EQUAL(OK(ob_sys_write_on(second, fd, line, sizeof(line) - 1)), sizeof(line) - 1);
	OK(ob_sys_close_on(second, fd));
	OK(ob_sys_pipe2_on(second, second_ends, 0));
	CHECK(!pthread_create(&thread, NULL, read_second_pipe, NULL));
	while (!second_reader || !sleeps_in_second(second_reader))
		usleep(1000);
}

static char parameter(const char *path)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
	char value;

	CHECK_EQUAL(OK(ob_sys_read(fd, &value, 1)), 1);
	OK(ob_sys_close(fd));
	return value;
}

/* Loads hold.c's module, and waits until its thread holds vCPU 1. */
static void hold_vcpu(const char *path, const char *parameters)
{
	int fd;

	client_load(path, parameters);
	OK(ob_sys_mkdir("/parameters", 0700));
	OK(ob_sys_mount("sysfs", "/parameters", "sysfs", 0, NULL));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/parameters/module/hold/parameters/go", O_WRONLY, 0));
	CHECK_EQUAL(OK(ob_sys_write(fd, "1", 1)), 1);
	OK(ob_sys_close(fd));
	while (parameter("/parameters/module/hold/parameters/looping") != 'Y')
		usleep(1000);
}

int main(int count, char **arguments)
{
	void *(*const functions[])(void *) = { read_empty_pipe, wait_for_futex, leave_the_kernel };
	pthread_t thread;

	client_boot(2);
	set_name("main-thread");
	log_a_line();
	if (count == 2 && !strcmp(arguments[1], "fault")) {
		fault_as_one_may();
		fault_of_our_own();
	}
	OK(ob_sys_pipe2(pipe_ends, 0));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread, NULL, functions[i], NULL));
	while (!out_in_host_code)
		usleep(1000);
	client_wait_until_asleep(&reader);
	client_wait_until_asleep(&waiter);
	if (count > 1 && !strcmp(arguments[1], "two")) {
		boot_second();
		if (count == 4)
			CHECK(!ob_component_load_file_on(second, arguments[2], arguments[3]));
	} else if (count == 3) {
		hold_vcpu(arguments[1], arguments[2]);
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
