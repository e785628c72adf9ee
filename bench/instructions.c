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
 * A trap takes 3 to 30 us, so a stepped call may last longer than a tick (10 ms) of the kernel. A
 * timer interrupt would prolong each such call, and it never comes during a call at full speed. So
 * the service threads, which are the kernel's timers, are held while a call is stepped: a signal
 * handler keeps them. A thread is held only while it sleeps: then it is in the middle of nothing.
 * The call at full speed before each stepped one takes the interrupts that are pending by then.
 *
 * A call that has to do with another vCPU, or that waits for one, would be longer: so the result is
 * the median, and a call of STEPS_MAX instructions goes on at full speed, and another is made.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include <outboard/outboard.h>

#define SAMPLES_MAX 1001
/* More than twice as many as any of the calls has. */
#define STEPS_MAX 3000
/* For each sample; nearly always, one is enough. */
#define ATTEMPTS 50
/* Of a service thread: how often it is found awake, 1 ms apart, before this program gives up. */
#define HOLD_ATTEMPTS 60000
#define SERVICE_THREAD "outboard-timer\n"
#define THREADS_MAX 256
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

/* Whether the instruction at the address is SYSCALL. */
static bool is_host_call(greg_t address)
{
	unsigned short code;

	memcpy(&code, (const void *)address, sizeof(code));
	return code == SYSCALL_BYTES;
}

/* Runs before each instruction of what is stepped, with the trap flag off. */
static void on_step(int signal, siginfo_t *information, void *context)
{
	ucontext_t *state = context;
	(void)signal;
	(void)information;
	current.instructions++;
	current.host_calls += is_host_call(state->uc_mcontext.gregs[REG_RIP]);
	if (current.instructions >= STEPS_MAX)
		state->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static pid_t service_threads[THREADS_MAX];
static int service_count;

enum hold { HOLD_NO, HOLD_ASKED, HOLD_AWAKE, HOLD_YES };
/* Of the thread to which the last signal went. */
static volatile enum hold answer;
static volatile bool hold;
static volatile int held;

/* Whether the signal interrupted futex(2): the host call fails, or is made again. */
static bool slept(const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;

	if (registers[REG_RAX] == -EINTR)
		return is_host_call(registers[REG_RIP] - 2);
	return registers[REG_RAX] == SYS_futex && is_host_call(registers[REG_RIP]);
}

/*
 * In a service thread. The platform calls this handler for signals that are not its own: all others
 * are blocked in that thread.
 */
static void on_hold(int signal, siginfo_t *information, void *context)
{
	const struct timespec moment = { .tv_nsec = 100000 };

	(void)signal;
	(void)information;
	if (!hold || answer != HOLD_ASKED)
		return;
	if (!slept(context)) {
		answer = HOLD_AWAKE;
		return;
	}
	__atomic_fetch_add(&held, 1, __ATOMIC_SEQ_CST);
	answer = HOLD_YES;
	while (hold)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
	__atomic_fetch_sub(&held, 1, __ATOMIC_SEQ_CST);
}

static void wait_a_moment(void)
{
	usleep(1000);
}

static void hold_thread(pid_t thread)
{
	for (int i = 0; i < HOLD_ATTEMPTS; i++) {
		answer = HOLD_ASKED;
		if (tgkill(getpid(), thread, SIGURG))
			break;
		while (answer == HOLD_ASKED)
			sched_yield();
		if (answer == HOLD_YES)
			return;
		wait_a_moment();
	}
	fprintf(stderr, "the service thread %d does not sleep\n", thread);
	exit(1);
}

static void hold_service_threads(void)
{
	hold = true;
	for (int i = 0; i < service_count; i++)
		hold_thread(service_threads[i]);
}

/* The kernel's timers catch up meanwhile. */
static void release_service_threads(void)
{
	hold = false;
	while (held)
		sched_yield();
	wait_a_moment();
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

/* Exits if nearly all calls are longer than they can be. */
static struct count median(const struct work *work, int samples)
{
	static struct count counts[SAMPLES_MAX];
	int done = 0;

	target = work->number < 0 ? empty : ob_syscall;
	for (int i = 0; done < samples; i++) {
		if (i == ATTEMPTS * samples) {
			fprintf(stderr, "%s: nearly all calls are too long\n", work->name);
			exit(1);
		}
		hold_service_threads();
		call(work);	/* at full speed: the next one finds its vCPU where it left it */
		counts[done] = count_steps(work);
		release_service_threads();
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

static bool is_service_thread(const char *thread)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", thread);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return !strcmp(name, SERVICE_THREAD);
}

/* Returns 0 or -1. */
static int find_service_threads(void)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *thread;

	if (!threads)
		return -1;
	while (service_count < THREADS_MAX && (thread = readdir(threads)))
		if (is_service_thread(thread->d_name))
			service_threads[service_count++] = atoi(thread->d_name);
	closedir(threads);
	return service_count ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_hold, .sa_flags = SA_SIGINFO | SA_RESTART };
	int samples = argc > 1 ? atoi(argv[1]) : 101;
	struct count none;

	if (samples < 1 || samples > SAMPLES_MAX)
		return 2;
	if (sigaction(SIGURG, &action, NULL) || ob_boot(NULL) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	if (prepare() < 0) {
		fprintf(stderr, "cannot prepare the calls\n");
		return 1;
	}
	if (find_service_threads() < 0) {
		fprintf(stderr, "cannot find the kernel's service threads in /proc/self/task\n");
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
