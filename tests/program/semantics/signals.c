// SPDX-License-Identifier: GPL-2.0-only
/* Signals: order, queues, what children report, what ends a process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "semantics.h"

/* ---- queues --------------------------------------------------------------- */

static void show_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	printf("  signal %d code %d value %d from me %d\n", number, info->si_code,
	       info->si_value.sival_int, info->si_pid == getpid());
}

static sigset_t set_of(int first, int second)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, first);
	sigaddset(&set, second);
	return set;
}

static void queue(int number, int value)
{
	CHECK(!sigqueue(getpid(), number, (union sigval) { .sival_int = value }));
}

static void check_taken(void)
{
	sigset_t set = set_of(SIGUSR1, SIGRTMIN);
	struct signalfd_siginfo taken;
	struct timespec now = { 0, 0 };
	siginfo_t info;
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);

	CHECK(fd >= 0 && read(fd, &taken, sizeof(taken)) == -1 && errno == EAGAIN);
	CHECK(sigtimedwait(&set, &info, &now) == -1 && errno == EAGAIN);
	queue(SIGRTMIN, 5);
	queue(SIGUSR1, 6);
	CHECK_EQUAL(read(fd, &taken, sizeof(taken)), sizeof(taken));
	CHECK(taken.ssi_signo == SIGUSR1 && taken.ssi_int == 6);
	CHECK_EQUAL(sigwaitinfo(&set, &info), SIGRTMIN);
	CHECK(info.si_value.sival_int == 5 && info.si_code == SI_QUEUE);
	CHECK(poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, 0) == 0);
}

void queues(void)
{
	sigset_t set = set_of(SIGUSR1, SIGRTMIN), other = set_of(SIGUSR2, SIGRTMAX), pending;
	struct sigaction action = { .sa_sigaction = show_signal, .sa_flags = SA_SIGINFO };

	sigaddset(&set, SIGRTMAX);
	sigaddset(&set, SIGUSR2);
	sigfillset(&action.sa_mask);
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !sigaction(SIGUSR2, &action, NULL));
	CHECK(!sigaction(SIGRTMIN, &action, NULL) && !sigaction(SIGRTMAX, &action, NULL));
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	/* One of each ordinary signal; all of the others, in order. */
	for (int value = 1; value <= 3; value++) {
		queue(SIGRTMAX, value);
		queue(SIGUSR2, value);
		queue(SIGRTMIN, value);
		queue(SIGUSR1, value);
	}
	CHECK(!kill(getpid(), SIGUSR1) && !raise(SIGRTMIN));
	CHECK(!sigpending(&pending) && sigismember(&pending, SIGUSR2));
	printf("first\n");
	CHECK(!sigprocmask(SIG_UNBLOCK, &other, NULL));
	printf("then\n");
	CHECK(!sigprocmask(SIG_UNBLOCK, &set, NULL));
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	check_taken();
	CHECK(sigqueue(getpid(), 65, (union sigval) {}) == -1 && errno == EINVAL);
	CHECK(kill(1 << 30, SIGTERM) == -1 && errno == ESRCH);
}

/* ---- dispositions --------------------------------------------------------- */

static int depth, deepest, nested;

static void nest(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	depth++;
	deepest = depth > deepest ? depth : deepest;
	if (++nested < 3)
		raise(number);
	depth--;
}

static void end_by(int number)
{
	pid_t child = fork_or_die();
	struct rlimit none = { 0, 0 };
	int status;

	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		kill(getpid(), number);
		_exit(9);
	}
	status = wait_for(child);
	printf("  %d: %x\n", number, (unsigned int)status);
}

static void check_self_sent(void)
{
	/* Before kill() returns, the signal has come. */
	for (int i = 1; i <= 200; i++) {
		CHECK(!kill(getpid(), SIGUSR1));
		CHECK_EQUAL(counted, i);
	}
	CHECK(!syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) && counted == 201);
}

static void check_flags(void)
{
	struct sigaction action;

	set_handler(SIGUSR2, nest, SA_NODEFER);
	CHECK(!raise(SIGUSR2));
	printf("nested %d\n", deepest);
	deepest = nested = 0;
	set_handler(SIGUSR2, nest, 0);
	CHECK(!raise(SIGUSR2));
	printf("deferred %d\n", deepest);
	set_handler(SIGUSR2, count_signal, SA_RESETHAND);
	CHECK(!raise(SIGUSR2));
	CHECK(!sigaction(SIGUSR2, NULL, &action) && action.sa_handler == SIG_DFL);
	CHECK(signal(SIGKILL, SIG_IGN) == SIG_ERR && errno == EINVAL);
	/* An ignored signal is lost, and so is one that waits when that begins. */
	CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && !raise(SIGUSR2));
	set_handler(SIGUSR2, count_signal, 0);
}

/* A fault whose signal is blocked or ignored ends the process. */
static void fault_in_child(bool blocks)
{
	pid_t child = fork_or_die();
	sigset_t set = set_of(SIGSEGV, SIGSEGV);

	if (!child) {
		if (blocks)
			sigprocmask(SIG_BLOCK, &set, NULL);
		else
			signal(SIGSEGV, SIG_IGN);
		*(volatile char *)8 = 1;
	}
	wait_for_signal(child, SIGSEGV);
}

void dispositions(void)
{
	static const int deadly[] = {
		SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1,
		SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM,
		SIGPROF, SIGPOLL, SIGPWR, SIGSYS, SIGCHLD, SIGURG, SIGWINCH, SIGCONT,
	};
	int ends[2];

	for (unsigned int i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		end_by(deadly[i]);
	end_by(34);
	end_by(64);
	set_handler(SIGUSR1, count_signal, 0);
	check_self_sent();
	check_flags();
	fault_in_child(true);
	fault_in_child(false);
	CHECK(!pipe(ends) && !close(ends[0]));
	counted = 0;
	set_handler(SIGPIPE, count_signal, 0);
	CHECK(write(ends[1], "", 1) == -1 && errno == EPIPE && counted == 1);
}

/* ---- children ------------------------------------------------------------- */

static volatile int child_code, child_status;
static volatile pid_t child_process;

static void on_child(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	child_code = info->si_code;
	child_status = info->si_status;
	child_process = info->si_pid;
	counted = counted + 1;
}

static void wait_for_child_signal(int least)
{
	while (counted < least)
		usleep(1000);
	printf("  child: code %d status %d\n", child_code, child_status);
}

void children_signals(void)
{
	pid_t child;
	siginfo_t info;
	int status;

	set_handler(SIGCHLD, on_child, 0);
	child = fork_or_die();
	if (!child) {
		for (;;)
			pause();
	}
	CHECK(!kill(child, SIGSTOP));
	wait_for_child_signal(1);
	CHECK(!waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOWAIT) && info.si_status == SIGSTOP);
	CHECK(waitpid(child, &status, WUNTRACED) == child);
	printf("stopped %x\n", (unsigned int)status);
	CHECK(!kill(child, SIGCONT));
	wait_for_child_signal(2);
	CHECK(waitpid(child, &status, WCONTINUED) == child);
	printf("continued %x\n", (unsigned int)status);
	CHECK(!waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED));
	CHECK(!kill(child, SIGTERM));
	wait_for_child_signal(3);
	CHECK(child_process == child);
	wait_for_signal(child, SIGTERM);
	child = fork_or_die();
	if (!child)
		_exit(300);
	wait_for_child_signal(4);
	CHECK(!waitid(P_ALL, 0, &info, WEXITED) && info.si_status == (300 & 0xff));
	set_handler(SIGCHLD, on_child, SA_NOCLDSTOP | SA_NOCLDWAIT);
	child = fork_or_die();
	if (!child)
		_exit(1);
	/* No zombie is left to wait for. */
	while (waitpid(child, &status, 0) != -1 || errno != ECHILD)
		;
	wait_for_child_signal(5);
}

/* ---- stacks --------------------------------------------------------------- */

/* SS_AUTODISARM of linux/signal.h. */
#define AUTODISARM (int)(1u << 31)

static stack_t seen_stack;

static void look_at_stack(int number, siginfo_t *info, void *context)
{
	stack_t small = { .ss_sp = context, .ss_size = 64 << 10 };

	(void)number;
	(void)info;
	CHECK(!sigaltstack(NULL, &seen_stack));
	/* It is in use. */
	if (seen_stack.ss_flags & SS_ONSTACK)
		CHECK(sigaltstack(&small, NULL) == -1 && errno == EPERM);
}

static void show_stack(const char *when)
{
	printf("%s: flags %x\n", when, (unsigned int)seen_stack.ss_flags);
}

void alternate_stacks(void)
{
	stack_t stack = { .ss_sp = map(64 << 10, MAP_PRIVATE), .ss_size = 64 << 10 };
	pid_t child;

	set_handler(SIGUSR1, look_at_stack, SA_ONSTACK);
	set_handler(SIGUSR2, look_at_stack, 0);
	CHECK(!raise(SIGUSR1));
	show_stack("none");
	CHECK(!sigaltstack(&stack, NULL) && !raise(SIGUSR1));
	show_stack("alternate");
	CHECK(!raise(SIGUSR2));
	show_stack("not used");
	stack.ss_flags = AUTODISARM;
	CHECK(!sigaltstack(&stack, NULL) && !raise(SIGUSR1));
	show_stack("disarmed inside");
	CHECK(!sigaltstack(NULL, &seen_stack));
	show_stack("armed again");
	stack.ss_flags = 0;
	stack.ss_size = 100;
	CHECK(sigaltstack(&stack, NULL) == -1 && errno == ENOMEM);
	/* A frame that finds no room ends the process. */
	child = fork_or_die();
	if (!child) {
		stack.ss_size = 64 << 10;
		CHECK(!sigaltstack(&stack, NULL) && !mprotect(stack.ss_sp, 64 << 10, PROT_READ));
		raise(SIGUSR1);
	}
	wait_for_signal(child, SIGSEGV);
}

/* ---- threads -------------------------------------------------------------- */

static _Atomic int handled_by;

static void on_thread_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	atomic_store(&handled_by, gettid());
}

static _Atomic int waiting_thread;
static atomic_bool thread_may_end;

static void *wait_for_signals(void *unblocked)
{
	sigset_t set = set_of(SIGUSR1, SIGUSR2);

	if (unblocked)
		CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	atomic_store(&waiting_thread, gettid());
	while (!atomic_load(&thread_may_end))
		usleep(1000);
	return NULL;
}

static int take_handler(void)
{
	int by;

	while (!(by = atomic_exchange(&handled_by, 0)))
		usleep(1000);
	return by;
}

void thread_signals(void)
{
	sigset_t set = set_of(SIGUSR1, SIGUSR2);
	pthread_t threads[2];
	pid_t ids[2];

	set_handler(SIGUSR1, on_thread_signal, 0);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (int i = 0; i < 2; i++) {
		CHECK(!pthread_create(&threads[i], NULL, wait_for_signals, i ? &set : NULL));
		while (!(ids[i] = atomic_exchange(&waiting_thread, 0)))
			usleep(1000);
	}
	/* The process's go to the thread that does not block them. */
	for (int i = 0; i < 20; i++) {
		CHECK(!kill(getpid(), SIGUSR1));
		CHECK_EQUAL(take_handler(), ids[1]);
	}
	/* A thread's wait for that thread. */
	CHECK(!pthread_kill(threads[0], SIGUSR1) && !pthread_kill(threads[1], SIGUSR1));
	CHECK_EQUAL(take_handler(), ids[1]);
	CHECK(!atomic_load(&handled_by));
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	CHECK(!atomic_load(&handled_by));
	CHECK(!pthread_kill(pthread_self(), SIGUSR1));
	CHECK_EQUAL(take_handler(), getpid());
	atomic_store(&thread_may_end, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
	/* It has a number until a moment after its end has been reported. */
	while (!syscall(SYS_tgkill, getpid(), ids[0], 0))
		usleep(1000);
	CHECK_EQUAL(errno, ESRCH);
}
