// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals, timers and job control inside the kernel's world: between clients, and from the kernel
 * to them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

/* Linux's own structure: the C library's is another one. */
struct action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

#define BIT(signal) (1ull << ((signal) - 1))

static volatile int count[65];
static volatile int last_value, last_code;
static volatile pid_t last_thread;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	CHECK_EQUAL(info->si_signo, number);
	last_value = info->si_value.sival_int;
	last_code = info->si_code;
	/* A handler may make calls. */
	last_thread = (pid_t)OK(ob_sys_gettid());
	count[number]++;
}

static void handle(int number, unsigned long flags)
{
	struct action action = { .handler = on_signal, .flags = flags | SA_SIGINFO };

	OK(ob_sys_rt_sigaction(number, (void *)&action, NULL, sizeof(uint64_t)));
}

static void mask(int how, uint64_t set)
{
	OK(ob_sys_rt_sigprocmask(how, (void *)&set, NULL, sizeof(set)));
}

struct reader {
	pthread_t thread;
	sem_t ready;
	int end, number;
	long result;
	int error;
};

static void *read_byte(void *argument)
{
	struct reader *reader = argument;
	char byte;

	reader->number = (int)OK(ob_sys_gettid());
	sem_post(&reader->ready);
	reader->result = ob_sys_read(reader->end, &byte, 1);
	reader->error = errno;
	return NULL;
}

static void start(struct reader *reader, int end)
{
	*reader = (struct reader){ .end = end };
	CHECK(!sem_init(&reader->ready, 0, 0));
	CHECK(!pthread_create(&reader->thread, NULL, read_byte, reader));
	CHECK(!sem_wait(&reader->ready));
	usleep(20000);
}

/* Signals are delivered when a thread makes a call, or is in one. */
static void until(volatile int *counter, int value)
{
	while (*counter < value) {
		OK(ob_sys_getppid());
		usleep(1000);
	}
}

/*
 * tgkill to a blocked thread: EINTR, or the call goes on after the handler if that was asked for.
 */
static void between_threads(void)
{
	int pid = (int)OK(ob_sys_getpid()), ends[2], before;
	struct reader reader;

	OK(ob_sys_pipe2(ends, 0));
	handle(SIGUSR1, 0);
	start(&reader, ends[0]);
	OK(ob_sys_tgkill(pid, reader.number, SIGUSR1));
	CHECK(!pthread_join(reader.thread, NULL));
	CHECK_EQUAL(reader.result, -1);
	CHECK_EQUAL(reader.error, EINTR);
	CHECK_EQUAL(last_thread, reader.number);
	CHECK_EQUAL(last_code, SI_TKILL);

	handle(SIGUSR1, SA_RESTART);
	before = count[SIGUSR1];
	start(&reader, ends[0]);
	for (int i = 1; i <= 5; i++) {
		OK(ob_sys_tgkill(pid, reader.number, SIGUSR1));
		until(&count[SIGUSR1], before + i);
	}
	OK(ob_sys_write(ends[1], "x", 1));
	CHECK(!pthread_join(reader.thread, NULL));
	CHECK_EQUAL(reader.result, 1);
	CHECK_EQUAL(ob_sys_tgkill(pid, reader.number, SIGUSR1), -1);
	CHECK_EQUAL(errno, ESRCH);
}

/* A signal to the process goes to a thread that has not blocked it. */
static void to_the_process(void)
{
	int ends[2], before = count[SIGUSR1];
	struct reader reader;

	OK(ob_sys_pipe2(ends, 0));
	handle(SIGUSR1, 0);
	start(&reader, ends[0]);
	mask(SIG_BLOCK, BIT(SIGUSR1));
	OK(ob_sys_kill((int)OK(ob_sys_getpid()), SIGUSR1));
	CHECK(!pthread_join(reader.thread, NULL));
	CHECK_EQUAL(reader.error, EINTR);
	CHECK_EQUAL(count[SIGUSR1], before + 1);
	CHECK_EQUAL(last_thread, reader.number);
	mask(SIG_UNBLOCK, BIT(SIGUSR1));
}

/* Blocked signals wait; sigsuspend and ppoll let them through for as long as they wait. */
static void masks(void)
{
	int self = (int)OK(ob_sys_gettid()), pid = (int)OK(ob_sys_getpid()),
	    before = count[SIGUSR1];
	struct timespec long_time = { 60, 0 };
	uint64_t none = 0, pending;

	handle(SIGUSR1, SA_RESTART);
	mask(SIG_BLOCK, BIT(SIGUSR1));
	for (int i = 0; i < 3; i++) {
		OK(ob_sys_tgkill(pid, self, SIGUSR1));
		OK(ob_sys_getppid());
		CHECK_EQUAL(count[SIGUSR1], before + i);
		OK(ob_sys_rt_sigpending((void *)&pending, sizeof(pending)));
		CHECK_EQUAL(pending, BIT(SIGUSR1));
		CHECK_EQUAL(i % 2 ? ob_sys_rt_sigsuspend((void *)&none, sizeof(none)) :
			    ob_sys_ppoll(NULL, 0, &long_time, (void *)&none, sizeof(none)), -1);
		CHECK_EQUAL(errno, EINTR);
		CHECK_EQUAL(count[SIGUSR1], before + i + 1);
	}
	OK(ob_sys_rt_sigprocmask(SIG_BLOCK, NULL, (void *)&pending, sizeof(pending)));
	CHECK_EQUAL(pending, BIT(SIGUSR1));
	mask(SIG_UNBLOCK, BIT(SIGUSR1));
}

/* Real-time signals are queued, with their values, in order. */
static void queued(void)
{
	int self = (int)OK(ob_sys_gettid()), pid = (int)OK(ob_sys_getpid()), number = 40;
	uint64_t set = BIT(number);
	siginfo_t info;

	mask(SIG_BLOCK, set);
	for (int i = 0; i < 100; i++) {
		memset(&info, 0, sizeof(info));
		info.si_code = SI_QUEUE;
		info.si_value.sival_int = i;
		OK(ob_sys_rt_tgsigqueueinfo(pid, self, number, &info));
	}
	for (int i = 0; i < 50; i++) {
		CHECK_EQUAL(OK(ob_sys_rt_sigtimedwait((void *)&set, &info, NULL, sizeof(set))),
			    number);
		CHECK_EQUAL(info.si_value.sival_int, i);
	}
	handle(number, 0);
	mask(SIG_UNBLOCK, set);
	CHECK_EQUAL(count[number], 50);
	CHECK_EQUAL(last_value, 99);
}

static void signal_descriptor(void)
{
	uint64_t set = BIT(SIGUSR2);
	struct signalfd_siginfo info;
	int file;

	mask(SIG_BLOCK, set);
	file = (int)OK(ob_sys_signalfd4(-1, (void *)&set, sizeof(set), 0));
	OK(ob_sys_kill((int)OK(ob_sys_getpid()), SIGUSR2));
	CHECK_EQUAL(OK(ob_sys_read(file, (char *)&info, sizeof(info))), (long)sizeof(info));
	CHECK_EQUAL(info.ssi_signo, SIGUSR2);
	OK(ob_sys_close(file));
	mask(SIG_UNBLOCK, set);
}

static void timer_descriptor(void)
{
	struct itimerspec every = { { 0, 5000000 }, { 0, 5000000 } };
	int file = (int)OK(ob_sys_timerfd_create(CLOCK_MONOTONIC, 0));
	uint64_t ticks, sum = 0;

	OK(ob_sys_timerfd_settime(file, 0, (void *)&every, NULL));
	while (sum < 10) {
		CHECK_EQUAL(OK(ob_sys_read(file, (char *)&ticks, sizeof(ticks))),
			    (long)sizeof(ticks));
		CHECK(ticks > 0);
		sum += ticks;
	}
	OK(ob_sys_close(file));
}

/* Timers that send signals: to the process, and to one thread. */
static void timers(void)
{
	struct itimerval every = { { 0, 5000 }, { 0, 5000 } }, off = { { 0, 0 }, { 0, 0 } };
	struct itimerspec soon = { { 0, 0 }, { 0, 5000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = 41 };
	struct timespec second = { 1, 0 };
	int timer, before = count[SIGALRM];

	handle(SIGALRM, 0);
	OK(ob_sys_setitimer(ITIMER_REAL, (void *)&every, NULL));
	while (count[SIGALRM] < before + 5) {
		CHECK_EQUAL(ob_sys_nanosleep(&second, NULL), -1);
		CHECK_EQUAL(errno, EINTR);
	}
	OK(ob_sys_setitimer(ITIMER_REAL, (void *)&off, NULL));

	handle(41, 0);
	event.sigev_value.sival_int = 7;
	event._sigev_un._tid = (int)OK(ob_sys_gettid());
	OK(ob_sys_timer_create(CLOCK_MONOTONIC, &event, (void *)&timer));
	OK(ob_sys_timer_settime(timer, 0, (void *)&soon, NULL));
	CHECK_EQUAL(ob_sys_pause(), -1);
	CHECK_EQUAL(count[41], 1);
	CHECK_EQUAL(last_value, 7);
	CHECK_EQUAL(last_code, SI_TIMER);
	OK(ob_sys_timer_delete(timer));
}

/* Signals of the kernel itself, to threads that want them and to threads that do not. */
static void broken_pipe(void)
{
	int ends[2];

	for (int handled = 0; handled < 2; handled++) {
		if (handled)
			handle(SIGPIPE, 0);
		OK(ob_sys_pipe2(ends, 0));
		OK(ob_sys_close(ends[0]));
		CHECK_EQUAL(ob_sys_write(ends[1], "x", 1), -1);
		CHECK_EQUAL(errno, EPIPE);
		CHECK_EQUAL(count[SIGPIPE], handled);
		OK(ob_sys_close(ends[1]));
	}
}

/*
 * A terminal: control-C is SIGINT to its foreground process group; a window size change is
 * SIGWINCH.
 */
static void job_control(void)
{
	int master, slave, unlock = 0, group, number;
	struct winsize size = { 24, 80, 0, 0 };
	char name[32], byte = 3;

	OK(ob_sys_mkdir("/dev/pts", 0755));
	OK(ob_sys_mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666"));
	master = (int)OK(ob_sys_openat(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY, 0));
	OK(ob_sys_ioctl(master, TIOCSPTLCK, (unsigned long)&unlock));
	OK(ob_sys_ioctl(master, TIOCGPTN, (unsigned long)&number));
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	OK(ob_sys_setsid());
	slave = (int)OK(ob_sys_openat(AT_FDCWD, name, O_RDWR, 0));
	OK(ob_sys_ioctl(slave, TIOCGPGRP, (unsigned long)&group));
	CHECK_EQUAL(group, (int)OK(ob_sys_getpgid(0)));
	handle(SIGINT, SA_RESTART);
	handle(SIGWINCH, SA_RESTART);
	CHECK_EQUAL(OK(ob_sys_write(master, &byte, 1)), 1);
	until(&count[SIGINT], 1);
	OK(ob_sys_ioctl(slave, TIOCSWINSZ, (unsigned long)&size));
	until(&count[SIGWINCH], 1);
	/* The other side hangs up. */
	handle(SIGHUP, SA_RESTART);
	OK(ob_sys_close(master));
	until(&count[SIGHUP], 1);
	CHECK_EQUAL(ob_sys_write(slave, &byte, 1), -1);
	CHECK_EQUAL(errno, EIO);
	OK(ob_sys_close(slave));
}

/* A handler for one time; then the default again. */
static void one_time(void)
{
	int self = (int)OK(ob_sys_gettid()), pid = (int)OK(ob_sys_getpid()),
	    before = count[SIGTERM];

	handle(SIGTERM, SA_RESETHAND);
	for (int i = 0; i < 3; i++) {
		OK(ob_sys_tgkill(pid, self, SIGTERM));
		OK(ob_sys_kill(pid, SIGTERM));
	}
	OK(ob_sys_getppid());
	CHECK_EQUAL(count[SIGTERM], before + 1);
}

/* Signals that end a process, or stop it, do nothing to a library. */
static void deadly(void)
{
	int pid = (int)OK(ob_sys_getpid());
	struct action none = { .handler = (void *)SIG_DFL };
	struct itimerval soon = { { 0, 0 }, { 0, 1000 } };

	for (int number = 1; number < 65; number++) {
		if (number != SIGKILL && number != SIGSTOP)
			OK(ob_sys_rt_sigaction(number, (void *)&none, NULL, sizeof(uint64_t)));
		OK(ob_sys_kill(pid, number));
		OK(ob_sys_tgkill(pid, (int)OK(ob_sys_gettid()), number));
		OK(ob_sys_kill(0, number));
	}
	OK(ob_sys_setitimer(ITIMER_REAL, (void *)&soon, NULL));
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		OK(ob_sys_getppid());
	}
}

int main(void)
{
	client_boot(2);
	between_threads();
	to_the_process();
	masks();
	queued();
	signal_descriptor();
	timer_descriptor();
	timers();
	broken_pipe();
	job_control();
	one_time();
	deadly();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
