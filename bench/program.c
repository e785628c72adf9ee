// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a program pays for the kernel that it runs on. Prints a line "NAME NANOSECONDS" for each
 * row: the median of its repeats.
 *
 *     program [GCC SOURCE RESULT]
 *
 * Statically linked, so that it runs with any root directory. As process 1 it ends the machine.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 5
#define PAGE 4096
#define MAPPED 65536
/* The argument of a process that only ends. */
#define ENDS "--end"

static char **arguments;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void must(int is_true, const char *what)
{
	if (!is_true)
		err(1, "%s", what);
}

static void reap(pid_t pid)
{
	int status = 1;

	must(pid > 0 && waitpid(pid, &status, 0) == pid, "process");
	if (status)
		errx(1, "a process ended with status %d", status);
}

/* Each row does its work `count` times, and returns the time that this took. */

static double null_call(int count)
{
	double start = now();

	for (int i = 0; i < count; i++)
		syscall(SYS_getppid);
	return now() - start;
}

static double write_null(int count)
{
	char bytes[PAGE];
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	double start;

	must(fd >= 0, "/dev/null");
	memset(bytes, 1, sizeof(bytes));
	start = now();
	for (int i = 0; i < count; i++)
		must(write(fd, bytes, sizeof(bytes)) == sizeof(bytes), "write");
	start = now() - start;
	close(fd);
	return start;
}

static void on_signal(int number)
{
	(void)number;
}

static double signals(int count)
{
	pid_t pid = getpid();
	double start;

	signal(SIGUSR1, on_signal);
	start = now();
	for (int i = 0; i < count; i++)
		syscall(SYS_tgkill, pid, pid, SIGUSR1);
	return now() - start;
}

static char *map(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	return at;
}

static double faults(int count)
{
	char *at = map((size_t)count * PAGE);
	double start;

	madvise(at, (size_t)count * PAGE, MADV_NOHUGEPAGE);
	start = now();
	for (int i = 0; i < count; i++)
		*(volatile char *)(at + (size_t)i * PAGE) = 1;
	start = now() - start;
	munmap(at, (size_t)count * PAGE);
	return start;
}

static double mappings(int count)
{
	double start = now();

	for (int i = 0; i < count; i++) {
		char *at = map(MAPPED);

		*(volatile char *)at = 1;
		munmap(at, MAPPED);
	}
	return now() - start;
}

/* Two processes wake each other in turn: half of a round trip. */
static double switches(int count)
{
	int there[2], back[2];
	char byte = 0;
	double start;
	pid_t pid;

	must(!pipe(there) && !pipe(back), "pipe");
	pid = fork();
	if (!pid) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			must(write(back[1], &byte, 1) == 1, "write");
		_exit(0);
	}
	close(there[0]);
	start = now();
	for (int i = 0; i < count; i++) {
		must(write(there[1], &byte, 1) == 1, "write");
		must(read(back[0], &byte, 1) == 1, "read");
	}
	start = now() - start;
	close(there[1]);
	reap(pid);
	close(back[0]);
	close(back[1]);
	return start / 2;
}

static double forks(int count)
{
	double start = now();

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		reap(pid);
	}
	return now() - start;
}

static double executions(int count, char *words[])
{
	double start = now();

	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			execv(words[0], words);
			_exit(1);
		}
		reap(pid);
	}
	return now() - start;
}

static double short_executions(int count)
{
	char *words[] = { arguments[0], ENDS, NULL };

	return executions(count, words);
}

static double compilations(int count)
{
	char *words[] = { arguments[1], "-O2", "-o", arguments[3], arguments[2], NULL };

	return executions(count, words);
}

static int is_more(const void *a, const void *b)
{
	return *(const double *)a > *(const double *)b ? 1 : -1;
}

static void row(const char *name, double (*work)(int), int count)
{
	double samples[REPEATS];

	work(count / 10 + 1);
	for (int i = 0; i < REPEATS; i++)
		samples[i] = work(count) / count;
	qsort(samples, REPEATS, sizeof(samples[0]), is_more);
	printf("%s %.0f\n", name, samples[REPEATS / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int is_init = getpid() == 1 && argc > 4 && !strcmp(argv[4], "init");

	if (argc > 1 && !strcmp(argv[1], ENDS))
		return 0;
	arguments = argv;
	setenv("PATH", "/usr/bin", 1);
	if (is_init)
		must(!mount("tmpfs", "/tmp", "tmpfs", 0, NULL), "/tmp");
	row("call", null_call, 10000);
	row("write", write_null, 10000);
	row("signal", signals, 2000);
	row("fault", faults, 2000);
	row("mmap", mappings, 1000);
	row("switch", switches, 2000);
	row("fork", forks, 100);
	row("exec", short_executions, 50);
	if (argc > 3)
		row("gcc", compilations, 1);
	if (is_init)
		reboot(RB_POWER_OFF);
	return 0;
}
