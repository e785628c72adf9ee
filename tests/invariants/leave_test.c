// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread that has given its vCPU away touches nothing of its task any more (V4):
 *
 *   leave_test call|interrupt
 *
 * A tracer, the parent, stops a client's thread behind the exchange by which it leaves a call: by
 * no instruction, by one, ... Or it stops a thread in ob_interrupt(), which takes no vCPU.
 * Meanwhile another thread halts the machine, which ends the stopped thread's task and gives all
 * memory of the kernel back. Then the stopped thread goes on: it must come out of its call.
 *
 * While the tracer steps, it stops all other threads: a stepped thread is so slow that ticks would
 * come faster than it handles them, and it would never get to the exchange.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../library/client.h"

/* Instructions until the thread leaves a call: one takes a few hundred, a tick some thousand. */
#define STEPS_MOST 1000000

#define THREADS_MOST 64

/* Instructions behind the exchange: all that could look at the task. */
#define INSTRUCTIONS 4

/* The same of ob_interrupt(): it looks at the task among these, and is stopped at some of them. */
#define INTERRUPT_INSTRUCTIONS 60
#define INTERRUPT_STEP 4

/* A halt waits for a thread that looks at its task in ob_interrupt(). The thread goes on then. */
#define HALT_MOST 300		/* milliseconds */

static bool interrupts;

static volatile struct {
	pid_t thread;		/* that makes calls */
	int is_stopped;
	int is_halted;
} *shared;

static void *call(void *unused)
{
	OK(ob_sys_getppid());
	shared->thread = gettid();
	while (!shared->is_halted)
		interrupts ? ob_interrupt(0) : ob_sys_getppid();
	CHECK(ob_sys_getppid() == -1 && errno == ENODEV);
	return unused;
}

static int client(void)
{
	pthread_t thread;

	client_boot(2);
	CHECK(!pthread_create(&thread, NULL, call, NULL));
	while (!shared->is_stopped)
		usleep(1000);
	CHECK_EQUAL(ob_halt(), 0);
	shared->is_halted = 1;
	CHECK(!pthread_join(thread, NULL));
	return 0;
}

/* The signal that stopped the thread; SIGTRAP if that was the tracer. */
static int wait_for_stop(pid_t thread)
{
	int status;

	CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

static unsigned long register_value(const struct user_regs_struct *r, unsigned int number)
{
	const unsigned long values[16] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};

	return values[number];
}

/* The bytes of a thread's next instruction, and more. */
static unsigned long next_code(pid_t thread, struct user_regs_struct *registers)
{
	unsigned long code;

	CHECK(!ptrace(PTRACE_GETREGS, thread, NULL, registers));
	errno = 0;
	code = (unsigned long)ptrace(PTRACE_PEEKTEXT, thread, registers->rip, NULL);
	CHECK(!errno);
	return code;
}

/*
 * Is the next instruction the exchange by which a call is left? xchg of a register with memory is
 * 0100wr.. 10000111 modrrr...: mod is not 11, and the register's number is rrrr. Of all that a
 * call can exchange only the parked state is odd.
 */
static int is_exchange(unsigned long code, const struct user_regs_struct *registers)
{
	if ((code & 0xf8) != 0x48 || (code >> 8 & 0xff) != 0x87 || (code >> 16 & 0xc0) == 0xc0)
		return 0;
	return register_value(registers, (code >> 19 & 7) | (code & 4 ? 8 : 0)) & 1;
}

static int is_interrupt(unsigned long code, const struct user_regs_struct *registers)
{
	(void)code;
	return registers->rip == (unsigned long)ob_interrupt;
}

/*
 * Is the next step a call of the host? Also one that a signal or the tracer has interrupted, which
 * the host repeats: its result is ERESTARTSYS (512) to ERESTART_RESTARTBLOCK (516) then.
 */
static int is_host_call(unsigned long code, const struct user_regs_struct *registers)
{
	long result = (long)registers->rax;

	return (code & 0xffff) == 0x050f || (result <= -512 && result >= -516);
}

/* One instruction. A signal comes before it. SIGURG only asks the slow thread to hurry: dropped. */
static void step(pid_t thread)
{
	int number = 0;

	do {
		CHECK(!ptrace(PTRACE_SINGLESTEP, thread, NULL,
			      (long)(number == SIGURG ? 0 : number)));
		number = wait_for_stop(thread);
	} while (number != SIGTRAP);
}

static struct {
	pid_t thread;
	int signal;		/* that is delivered when it goes on */
} stopped[THREADS_MOST];
static int stopped_count;

static int is_stopped(pid_t thread)
{
	for (int i = 0; i < stopped_count; i++)
		if (stopped[i].thread == thread)
			return 1;
	return 0;
}

/* Stops a thread, unless it has just ended. Returns whether it is stopped. */
static int stop(pid_t thread)
{
	int status;

	if (ptrace(PTRACE_SEIZE, thread, NULL, 0) || ptrace(PTRACE_INTERRUPT, thread, NULL, NULL))
		return 0;
	CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
	if (!WIFSTOPPED(status))
		return 0;
	CHECK(stopped_count < THREADS_MOST);
	stopped[stopped_count].thread = thread;
	stopped[stopped_count++].signal = status >> 16 ? 0 : WSTOPSIG(status);
	return 1;
}

/* Stops all threads of a process but one, and those that they start meanwhile. */
static void stop_others(pid_t process, pid_t thread)
{
	int found = 1;

	while (found) {
		char path[64];
		struct dirent *entry;
		DIR *directory;

		snprintf(path, sizeof(path), "/proc/%d/task", process);
		directory = opendir(path);
		CHECK(directory);
		found = 0;
		while ((entry = readdir(directory))) {
			pid_t other = atoi(entry->d_name);

			if (other && other != thread && !is_stopped(other))
				found |= stop(other);
		}
		closedir(directory);
	}
}

static void let_others_go(void)
{
	for (int i = 0; i < stopped_count; i++)
		CHECK(!ptrace(PTRACE_DETACH, stopped[i].thread, NULL, (long)stopped[i].signal));
	stopped_count = 0;
}

/* The thread may wait for others in a call of the host: they run meanwhile. */
static void step_to_place(pid_t process, pid_t thread)
{
	int (*is_there)(unsigned long, const struct user_regs_struct *) =
		interrupts ? is_interrupt : is_exchange;
	struct user_regs_struct registers;
	unsigned long code;

	stop_others(process, thread);
	for (int steps = 0; !is_there(code = next_code(thread, &registers), &registers); steps++) {
		CHECK(steps < STEPS_MOST);
		if (is_host_call(code, &registers))
			let_others_go();
		step(thread);
		if (is_host_call(code, &registers))
			stop_others(process, thread);
	}
}

static void stop_behind_place(pid_t process, pid_t thread, int instructions)
{
	CHECK(!ptrace(PTRACE_SEIZE, thread, NULL, PTRACE_O_EXITKILL));
	CHECK(!ptrace(PTRACE_INTERRUPT, thread, NULL, NULL));
	while (wait_for_stop(thread) != SIGTRAP)
		CHECK(!ptrace(PTRACE_CONT, thread, NULL, NULL));
	step_to_place(process, thread);
	for (int i = 0; i <= instructions; i++)
		step(thread);
	let_others_go();
}

static void trace(int instructions)
{
	pid_t child;
	int status;

	shared->thread = shared->is_stopped = shared->is_halted = 0;
	child = fork();
	CHECK(child >= 0);
	if (!child)
		_Exit(client());
	while (!shared->thread)
		CHECK(!waitpid(child, &status, WNOHANG) && !usleep(1000));
	stop_behind_place(child, shared->thread, instructions);
	shared->is_stopped = 1;
	for (int waited = 0; !shared->is_halted && !(interrupts && waited == HALT_MOST); waited++)
		CHECK(!waitpid(child, &status, WNOHANG) && !usleep(1000));
	CHECK(!ptrace(PTRACE_DETACH, shared->thread, NULL, NULL));
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		fprintf(stderr,
			"stopped %d instructions behind the place, the client ended by signal %d\n",
			instructions, WTERMSIG(status));
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 2);
	interrupts = !strcmp(arguments[1], "interrupt");
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < (interrupts ? INTERRUPT_INSTRUCTIONS : INSTRUCTIONS);
	     i += interrupts ? INTERRUPT_STEP : 1)
		trace(i);
	return 0;
}
