/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many instructions a call takes, in user space: all of them, counted by single-stepping the thread that calls.
 *
 * Usage: instructions SAMPLES. A line for each call: its name, the median of its instructions,
 * without what a call of an empty function takes, and the most host calls that a sample at the median had.
 * A sample in which a timer's interrupt comes has more; so the median it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/outboard.h>

#define SAMPLES_MAX 1001
#define SYSCALL_BYTES 0x050f

/* What is between two marks is counted. */
#define mark() asm volatile("int3" ::: "memory")

static void require(bool good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static long empty(long number, ...)
{
	return number;
}

static struct work {
	const char *name;
	long number;		/* -1: the empty function */
	long arguments[4];
} works[] = {
	{ "empty", -1, { 0 } },
	{ "getppid", SYS_getppid, { 0 } },
	{ "getrlimit", SYS_getrlimit, { RLIMIT_CORE } },
	{ "read", SYS_read, { 0, 0, 1 } },
	{ "pread64", SYS_pread64, { 0, 0, 1 } },
};

#define WORKS (sizeof(works) / sizeof(works[0]))

static long (*volatile target)(long number, ...);

static void call(const struct work *work)
{
	target(work->number, work->arguments[0], work->arguments[1], work->arguments[2], work->arguments[3]);
}

/* The read calls get one byte: of /dev/zero, and of a file in memory. */
static void prepare(void)
{
	static struct rlimit limit;
	static char byte;
	long zero = ob_syscall(SYS_open, "/dev/zero", O_RDONLY), file = ob_syscall(SYS_open, "/file", O_RDWR | O_CREAT, 0600);

	if (zero < 0 || file < 0 || ob_syscall(SYS_write, file, "x", 1) != 1)
		exit(1);
	works[2].arguments[1] = (long)&limit;
	works[3].arguments[0] = zero;
	works[3].arguments[1] = (long)&byte;
	works[4].arguments[0] = file;
	works[4].arguments[1] = (long)&byte;
}

static void child(int samples)
{
	if (ob_boot(NULL) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		exit(1);
	}
	prepare();
	require(ptrace(PTRACE_TRACEME) == 0 && raise(SIGSTOP) == 0, "PTRACE_TRACEME");
	for (unsigned int i = 0; i < WORKS; i++) {
		target = works[i].number < 0 ? empty : ob_syscall;
		for (int j = 0; j < samples; j++) {
			call(&works[i]);	/* at full speed: the next one finds its vCPU where it left it */
			mark();
			call(&works[i]);
			mark();
		}
	}
	exit(ob_halt() == 0 ? 0 : 1);
}

/* Lets the child go on until it stops for itself; a signal of its own is given to it. */
static int resume(pid_t pid, enum __ptrace_request how, bool *at_mark)
{
	siginfo_t information;
	int status, signal = 0;

	do {
		require(ptrace(how, pid, NULL, (long)signal) == 0 && waitpid(pid, &status, 0) == pid, "ptrace");
		if (!WIFSTOPPED(status))
			return status;
		signal = WSTOPSIG(status);
	} while (signal != SIGTRAP);
	require(ptrace(PTRACE_GETSIGINFO, pid, NULL, &information) == 0, "PTRACE_GETSIGINFO");
	*at_mark = information.si_code == SI_KERNEL;
	return 0;
}

struct count {
	long instructions, host_calls;
};

/* From a mark to the next one, without the mark itself. */
static struct count count_steps(pid_t pid)
{
	struct count count = { 0, 0 };
	bool at_mark = false;

	for (;;) {
		long rip = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), NULL);
		long code = ptrace(PTRACE_PEEKTEXT, pid, rip, NULL);

		require(resume(pid, PTRACE_SINGLESTEP, &at_mark) == 0, "the child ended");
		if (at_mark)
			return count;
		count.instructions++;
		count.host_calls += (code & 0xffff) == SYSCALL_BYTES;
	}
}

static int compare(const void *left, const void *right)
{
	const struct count *one = left, *other = right;

	if (one->instructions != other->instructions)
		return one->instructions < other->instructions ? -1 : 1;
	return (one->host_calls > other->host_calls) - (one->host_calls < other->host_calls);
}

static struct count median(pid_t pid, int samples)
{
	static struct count counts[SAMPLES_MAX];
	bool at_mark = false;

	for (int i = 0; i < samples; i++) {
		require(resume(pid, PTRACE_CONT, &at_mark) == 0 && at_mark, "the child ended");
		counts[i] = count_steps(pid);
	}
	qsort(counts, (size_t)samples, sizeof(counts[0]), compare);
	return counts[samples / 2];
}

int main(int argc, char **argv)
{
	int samples = argc > 1 ? atoi(argv[1]) : 101, status;
	struct count none = { 0, 0 };
	bool at_mark;
	pid_t pid;

	if (samples < 1 || samples > SAMPLES_MAX)
		return 2;
	pid = fork();
	require(pid >= 0, "fork");
	if (pid == 0)
		child(samples);
	require(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "the child ended");
	require(ptrace(PTRACE_SETOPTIONS, pid, NULL, (long)PTRACE_O_EXITKILL) == 0, "PTRACE_SETOPTIONS");
	for (unsigned int i = 0; i < WORKS; i++) {
		struct count count = median(pid, samples);

		if (i == 0)
			none = count;
		else
			printf("%s %ld %ld\n", works[i].name, count.instructions - none.instructions, count.host_calls);
	}
	status = resume(pid, PTRACE_CONT, &at_mark);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
