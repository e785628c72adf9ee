/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many instructions a call takes, in user space: all of them, counted by single-stepping.
 *
 * Usage: instructions SAMPLES. A line for each call: its name, the median of its instructions,
 * without what a call of an empty function takes, and the most host calls that a sample at the
 * median had. Exit code: 0, or 1 with a message on standard error.
 *
 * The thread steps itself: the processor's trap flag makes each instruction end in SIGTRAP, whose
 * handler counts. A tracer would need two context switches for each instruction, and on a busy
 * machine both wait for their turn.
 *
 * A sample in which a timer interrupt of the kernel comes has more instructions. So it is the
 * median. Stepped on a busy machine, the interrupt lasts until the next one is due, and that one
 * until the third: such a sample would never end. After STEPS_MAX instructions it goes on at full
 * speed, and another one is taken in its place.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <x86intrin.h>

#include <outboard/outboard.h>

#define SAMPLES_MAX 1001
/* More than twice as many as any of the calls has. */
#define STEPS_MAX 3000
/* For each sample; on an idle machine, one is enough. */
#define ATTEMPTS 50
#define TRAP_FLAG 0x100
#define SYSCALL_BYTES 0x050f

struct count {
	long instructions, host_calls;
};

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

/* Of the call that is stepped. */
static volatile struct count current;

static long empty(long number, ...)
{
	return number;
}

static long (*volatile target)(long number, ...);

static void call(const struct work *work)
{
	const long *arguments = work->arguments;

	target(work->number, arguments[0], arguments[1], arguments[2], arguments[3]);
}

/* Runs before each instruction of what is stepped, with the trap flag off. */
static void on_step(int signal, siginfo_t *information, void *context)
{
	ucontext_t *state = context;
	unsigned short code;

	(void)signal;
	(void)information;
	memcpy(&code, (const void *)state->uc_mcontext.gregs[REG_RIP], sizeof(code));
	current.instructions++;
	current.host_calls += code == SYSCALL_BYTES;
	if (current.instructions >= STEPS_MAX)
		state->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

/* The few instructions around the call are the same for all, and so for the empty function. */
static struct count count_steps(const struct work *work)
{
	current.instructions = 0;
	current.host_calls = 0;
	__writeeflags(__readeflags() | TRAP_FLAG);
	call(work);
	__writeeflags(__readeflags() & ~TRAP_FLAG);
	return current;
}

static int compare(const void *left, const void *right)
{
	const struct count *one = left, *other = right;

	if (one->instructions != other->instructions)
		return one->instructions < other->instructions ? -1 : 1;
	return (one->host_calls > other->host_calls) - (one->host_calls < other->host_calls);
}

/* Exits if interrupts come in nearly all calls. */
static struct count median(const struct work *work, int samples)
{
	static struct count counts[SAMPLES_MAX];
	int done = 0;

	target = work->number < 0 ? empty : ob_syscall;
	for (int i = 0; done < samples; i++) {
		if (i == ATTEMPTS * samples) {
			fprintf(stderr, "%s: nearly all calls are interrupted\n", work->name);
			exit(1);
		}
		call(work);	/* at full speed: the next one finds its vCPU where it left it */
		counts[done] = count_steps(work);
		done += counts[done].instructions < STEPS_MAX;
	}
	qsort(counts, (size_t)samples, sizeof(counts[0]), compare);
	return counts[samples / 2];
}

/* The read calls get one byte: of /dev/zero, and of a file in memory. Returns 0 or -1. */
static int prepare(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	static struct rlimit limit;
	static char byte;
	long zero = ob_syscall(SYS_open, "/dev/zero", O_RDONLY);
	long file = ob_syscall(SYS_open, "/file", O_RDWR | O_CREAT, 0600);

	if (zero < 0 || file < 0 || ob_syscall(SYS_write, file, "x", 1) != 1)
		return -1;
	works[2].arguments[1] = (long)&limit;
	works[3].arguments[0] = zero;
	works[3].arguments[1] = (long)&byte;
	works[4].arguments[0] = file;
	works[4].arguments[1] = (long)&byte;
	return sigaction(SIGTRAP, &action, NULL);
}

int main(int argc, char **argv)
{
	int samples = argc > 1 ? atoi(argv[1]) : 101;
	struct count none;

	if (samples < 1 || samples > SAMPLES_MAX)
		return 2;
	if (ob_boot(NULL) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	if (prepare() < 0) {
		fprintf(stderr, "cannot prepare the calls\n");
		return 1;
	}
	none = median(&works[0], samples);
	for (unsigned int i = 1; i < WORKS; i++) {
		struct count count = median(&works[i], samples);

		printf("%s %ld %ld\n", works[i].name, count.instructions - none.instructions,
		       count.host_calls);
	}
	return ob_halt() == 0 ? 0 : 1;
}
