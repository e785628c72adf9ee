// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program that filters its own system calls (seccomp), and uses restartable
 * sequences. program_cases_test.c runs it inside of the kernel: filtered_inside CASE. It knows
 * nothing of Outboard, so it must pass on any x86-64 Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

#define FORBIDDEN SYS_getpriority
#define ARGUMENT 0x1234567800000002ul

static int status_of(pid_t child)
{
	int status = -1;

	CHECK_EQUAL(waitpid(child, &status, __WALL), child);
	return status;
}

/* Runs a function in a child. Returns how the child ends. */
static int apart(void (*run)(void))
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		run();
		_exit(0);
	}
	return status_of(child);
}

/* ---- filters -------------------------------------------------------------- */

/* From now on `action` is what a call of FORBIDDEN with that argument does. */
static long filter(unsigned int action, unsigned int flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)(ARGUMENT >> 32), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void install(unsigned int action)
{
	CHECK_EQUAL(filter(action, 0), 0);
	CHECK_EQUAL(prctl(PR_GET_SECCOMP), SECCOMP_MODE_FILTER);
}

static long forbidden(void)
{
	return syscall(FORBIDDEN, ARGUMENT, 0);
}

static void strict(void)
{
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	CHECK_EQUAL(write(2, "", 0), 0);
	syscall(SYS_getpid);
	syscall(SYS_exit, 0);
}

static char *self;

static void expect_error(void)
{
	CHECK(forbidden() == -1 && errno == 123);
}

static void *expect_error_in_thread(void *unused)
{
	expect_error();
	return unused;
}

/* A filter holds for later threads, children and programs; a stricter one wins. */
static void refuse(void)
{
	pthread_t thread;

	install(SECCOMP_RET_ERRNO | 123);
	expect_error();
	CHECK(syscall(FORBIDDEN, ARGUMENT & 0xffffffff, 0) > 0);
	CHECK(!pthread_create(&thread, NULL, expect_error_in_thread, NULL) &&
	      !pthread_join(thread, NULL));
	CHECK_EQUAL(apart(expect_error), 0);
	install(SECCOMP_RET_ALLOW);
	execl(self, self, "refused", NULL);
	_exit(9);
}

static volatile siginfo_t trapped;

static void note_trap(int number, siginfo_t *info, void *unused)
{
	(void)number;
	(void)unused;
	*(siginfo_t *)&trapped = *info;
}

static void trap(void)
{
	struct sigaction action = { .sa_sigaction = note_trap, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGSYS, &action, NULL));
	install(SECCOMP_RET_TRAP | 17);
	/* The number is still in the register of the result. */
	errno = 0;
	CHECK_EQUAL(forbidden(), FORBIDDEN);
	CHECK(trapped.si_signo == SIGSYS && trapped.si_code == 1 && trapped.si_errno == 17);
	CHECK(trapped.si_syscall == FORBIDDEN && trapped.si_arch == AUDIT_ARCH_X86_64);
	CHECK(trapped.si_call_addr);
}

static void kill_process(void)
{
	install(SECCOMP_RET_KILL_PROCESS);
	forbidden();
}

static void *make_forbidden_call(void *unused)
{
	install(SECCOMP_RET_KILL_THREAD);
	forbidden();
	return unused;
}

static void kill_thread(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, make_forbidden_call, NULL));
	CHECK(!pthread_join(thread, NULL));
	CHECK(forbidden() > 0);
}

static void no_tracer(void)
{
	install(SECCOMP_RET_TRACE | 7);
	CHECK(forbidden() == -1 && errno == ENOSYS);
}

static void traced(void)
{
	CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
	install(SECCOMP_RET_TRACE | 7);
	raise(SIGSTOP);
	CHECK_EQUAL(forbidden(), 66);
	CHECK_EQUAL(forbidden(), getpid());
}

/* The tracer makes no call of the first, and another call of the second. */
static void trace(void)
{
	pid_t child = fork();
	unsigned long message;

	CHECK(child >= 0);
	if (!child) {
		traced();
		_exit(0);
	}
	CHECK_EQUAL(status_of(child), SIGSTOP << 8 | 0x7f);
	CHECK(!ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESECCOMP));
	for (int i = 0; i < 2; i++) {
		CHECK(!ptrace(PTRACE_CONT, child, 0, 0));
		CHECK_EQUAL(status_of(child), (PTRACE_EVENT_SECCOMP << 8 | SIGTRAP) << 8 | 0x7f);
		CHECK(!ptrace(PTRACE_GETEVENTMSG, child, 0, &message) && message == 7);
		CHECK(!ptrace(PTRACE_POKEUSER, child, ORIG_RAX * sizeof(long),
			      i ? SYS_getpid : -1));
		if (!i)
			CHECK(!ptrace(PTRACE_POKEUSER, child, RAX * sizeof(long), 66));
	}
	CHECK(!ptrace(PTRACE_CONT, child, 0, 0));
	CHECK_EQUAL(status_of(child), 0);
}

static atomic_int listener;

static void *ask(void *unused)
{
	(void)unused;
	atomic_store(&listener,
		     (int)filter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER));
	CHECK_EQUAL(forbidden(), 4711);
	CHECK(forbidden() == -1 && errno == 99);
	return NULL;
}

/* Another thread answers. */
static void notify(void)
{
	struct seccomp_notif call;
	struct seccomp_notif_resp answer;
	pthread_t thread;
	int fd;

	CHECK(!pthread_create(&thread, NULL, ask, NULL));
	while (!(fd = atomic_load(&listener)))
		sched_yield();
	CHECK(fd > 0);
	for (int i = 0; i < 2; i++) {
		memset(&call, 0, sizeof(call));
		CHECK(!ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call));
		CHECK(call.data.nr == FORBIDDEN && call.data.args[0] == ARGUMENT);
		answer = (struct seccomp_notif_resp){
			.id = call.id, .val = i ? 0 : 4711, .error = i ? -99 : 0,
		};
		CHECK(!ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer));
	}
	CHECK(!pthread_join(thread, NULL));
}

static void filters(void)
{
	int status = apart(strict);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_EQUAL(apart(refuse), 0);
	CHECK_EQUAL(apart(trap), 0);
	status = apart(kill_process);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	CHECK_EQUAL(apart(kill_thread), 0);
	CHECK_EQUAL(apart(no_tracer), 0);
	trace();
	notify();
}

/* ---- restartable sequences ------------------------------------------------ */

static struct rseq *area(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

extern const char sequence_begins[], sequence_ends[];

/* Ends only if the kernel aborts the sequence. */
__attribute__((noinline, noclone)) static void run_until_aborted(void)
{
	asm volatile goto(".pushsection .data.sequence, \"aw\"\n\t"
			  ".balign 32\n"
			  "3:	.long 0, 0\n\t"
			  ".quad sequence_begins, sequence_ends - sequence_begins, 4f\n\t"
			  ".popsection\n\t"
			  "lea 3b(%%rip), %%rax\n\t"
			  "mov %%rax, %[sequence]\n"
			  "sequence_begins:	pause\n\t"
			  "jmp sequence_begins\n"
			  "sequence_ends:	ud2\n\t"
			  ".long %c[signature]\n"
			  "4:	jmp %l[aborted]\n"
			  : : [sequence] "m" (area()->rseq_cs), [signature] "i" (RSEQ_SIG)
			  : "rax", "memory" : aborted);
	__builtin_unreachable();
aborted:
	CHECK_EQUAL(area()->rseq_cs, 0);
}

static atomic_int alarms;

/* The sequence is aborted before a handler runs, not when the handler returns. */
static void note_alarm(int number, siginfo_t *info, void *context)
{
	const char *at = (const char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	CHECK(at < sequence_begins || at >= sequence_ends);
	alarms++;
}

static void abort_by_signals(void)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_sigaction = note_alarm, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 20; i++)
		run_until_aborted();
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	CHECK(alarms > 0);
}

/* Two processes share a processor, so each is switched from. */
static void abort_by_preemption(void)
{
	cpu_set_t first;
	pid_t child;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	CHECK(!sched_setaffinity(0, sizeof(first), &first));
	child = fork();
	CHECK(child >= 0);
	for (int i = 0; i < 3; i++)
		run_until_aborted();
	if (!child)
		_exit(0);
	CHECK(!kill(child, SIGKILL));
	status_of(child);
}

/* The kernel keeps the number of the processor, in each thread and after a fork. */
static void *check_processor(void *unused)
{
	unsigned int number;
	cpu_set_t only;

	(void)unused;
	for (int i = 0; i < 4; i++) {
		CPU_ZERO(&only);
		CPU_SET(i, &only);
		if (sched_setaffinity(0, sizeof(only), &only))
			continue;
		CHECK(!syscall(SYS_getcpu, &number, NULL, NULL));
		CHECK(area()->cpu_id == number && area()->cpu_id_start == number);
		CHECK_EQUAL(number, i);
	}
	return NULL;
}

static void check_processors(void)
{
	check_processor(NULL);
}

static void sequences(void)
{
	pthread_t thread;

	/* The C library has registered the sequences of this thread: so the call is there. */
	CHECK(__rseq_size > 0);
	CHECK(syscall(SYS_rseq, area(), 32, 0, RSEQ_SIG) == -1 && errno == EBUSY);
	CHECK_EQUAL(apart(check_processors), 0);
	CHECK(!pthread_create(&thread, NULL, check_processor, NULL) &&
	      !pthread_join(thread, NULL));
	CHECK_EQUAL(apart(abort_by_signals), 0);
	CHECK_EQUAL(apart(abort_by_preemption), 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "filters", filters }, { "refused", expect_error }, { "sequences", sequences },
};

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	self = argv[0];
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}
