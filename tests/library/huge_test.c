// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that the kernel grows by is of huge pages where the host gives them, and works the same
 * where it does not: huge_test alone|prepared|filtered huge|small
 *   alone     asks for them when it grows
 *   prepared  asks before it boots, then has a filter that ends the process if it tries later
 *   filtered  has that filter from the start
 * No process, descriptor or signal may be left of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "entries.h"

#define MB (1ul << 20)
#define FILE_MEGABYTES 256

static char block[MB], got[MB];
static volatile int children;

static void on_child(int number)
{
	(void)number;
	children++;
}

/* Namespaces and mounts end the process. */
static void filter(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsopen, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000000 /* CLONE_NEWUSER */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(rules) / sizeof(rules[0]), .filter = rules };

	CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static int descriptors(void)
{
	return (int)count_entries("/proc/self/fd");
}

static unsigned long huge_megabytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kilobytes = 0;
	char line[128];

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "ShmemPmdMapped: %lu kB", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes >> 10;
}

static void fill(const char *name)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, name, O_CREAT | O_RDWR, 0600));

	for (int i = 0; i < FILE_MEGABYTES; i++) {
		memset(block, i, MB);
		CHECK_EQUAL(OK(ob_sys_write(file, block, MB)), (long)MB);
	}
	for (int i = 0; i < FILE_MEGABYTES; i++) {
		memset(block, i, MB);
		CHECK_EQUAL(OK(ob_sys_pread64(file, got, MB, i * (long)MB)), (long)MB);
		CHECK(!memcmp(got, block, MB));
	}
	OK(ob_sys_close(file));
}

/*
 * Both kinds of memory are in the file: a window shows what the other way writes, and hides it from
 * a child.
 */
static void windows(const char *name)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, name, O_RDWR, 0)), status;
	char *window = ob_sys_mmap(NULL, FILE_MEGABYTES * MB, PROT_READ | PROT_WRITE, MAP_SHARED,
				   file, 0);
	unsigned char resident;
	pid_t child;

	CHECK(window != MAP_FAILED);
	for (int i = 0; i < FILE_MEGABYTES; i++) {
		CHECK_EQUAL(window[i * MB], (char)i);
		window[i * MB + 1] = (char)(i + 1);
		CHECK_EQUAL(OK(ob_sys_pread64(file, got, 2, i * (long)MB)), 2);
		CHECK_EQUAL(got[1], (char)(i + 1));
	}
	child = fork();
	if (!child)
		_exit(!(mincore(window, 4096, &resident) == -1 && errno == ENOMEM &&
			huge_megabytes() == 0));
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	OK(ob_sys_munmap(window, FILE_MEGABYTES * MB));
	OK(ob_sys_close(file));
}

/* Its code is in pages of RAM, which grew before. */
static void component(void)
{
	if (ob_kernel_config("CONFIG_MODULES"))
		CHECK_EQUAL(ob_component_load("xfs", NULL), 0);
}

int main(int count, char **arguments)
{
	int before, status;

	CHECK_EQUAL(count, 3);
	before = descriptors();
	if (!strcmp(arguments[1], "prepared"))
		ob_prepare();
	if (strcmp(arguments[1], "alone"))
		filter();
	CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
	client_boot(2);
	client_tmpfs("/tmpfs");
	CHECK_EQUAL(huge_megabytes(), 0);
	fill("/tmpfs/big");
	if (!strcmp(arguments[2], "huge"))
		CHECK(huge_megabytes() >= FILE_MEGABYTES / 4);
	else
		CHECK_EQUAL(huge_megabytes(), 0);
	CHECK_EQUAL(children, 0);
	CHECK_EQUAL(waitpid(-1, &status, __WALL | WNOHANG), -1);
	CHECK_EQUAL(errno, ECHILD);
	windows("/tmpfs/big");
	component();
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(descriptors(), before);
	return 0;
}
