// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that wait, and what signals make of them. A child waits in each call; its parent sends
 * signals while it sleeps there:
 *
 *   the handler has no SA_RESTART      the call ends with EINTR, or whatever Linux promises
 *   the handler has SA_RESTART         the call goes on, or ends
 *   SIGSTOP, then SIGCONT              the call goes on, or ends
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "semantics.h"

static int ends[2], full[2], sockets[2], listener, empty_queue, semaphores, locked;
static const char *fifo;
/* Shared with the child: a futex word, and how many signals it has handled. */
static struct {
	_Atomic unsigned int word;
	volatile int handled;
} *shared;

#define LONG_TIME { 1000, 0 }

static long wait_read(void)
{
	char byte;

	return read(ends[0], &byte, 1);
}

static long wait_write(void)
{
	return write(full[1], "x", 1);
}

static long wait_pause(void)
{
	return pause();
}

static long wait_suspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none);
}

static long wait_sleep(void)
{
	struct timespec time = LONG_TIME, left = { 0, 0 };
	long result = nanosleep(&time, &left);

	CHECK(left.tv_sec > 900);
	return result;
}

static long wait_sleep_until(void)
{
	struct timespec time;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &time));
	time.tv_sec += 1000;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	return -1;
}

static long wait_poll(void)
{
	return poll(&(struct pollfd) { .fd = ends[0], .events = POLLIN }, 1, 1000000);
}

static long wait_select(void)
{
	struct timeval time = LONG_TIME;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, &time);
}

static long wait_pselect(void)
{
	struct timespec time = LONG_TIME;
	sigset_t none;

	sigemptyset(&none);
	return pselect(0, NULL, NULL, NULL, &time, &none);
}

static long wait_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	CHECK(fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &event));
	return epoll_wait(fd, &event, 1, 1000000);
}

static long wait_futex(void)
{
	return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static long wait_futex_for(void)
{
	struct timespec time = LONG_TIME;

	return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &time, NULL, 0);
}

static long wait_semaphore(void)
{
	struct sembuf down = { 0, -1, 0 };

	return semop(semaphores, &down, 1);
}

static long wait_message(void)
{
	struct { long type; char text[8]; } message;

	return msgrcv(empty_queue, &message, sizeof(message.text), 0, 0);
}

static long wait_lock(void)
{
	return flock(locked, LOCK_EX);
}

static long wait_record(void)
{
	struct flock lock = { .l_type = F_WRLCK };

	return fcntl(locked, F_SETLKW, &lock);
}

static long wait_accept(void)
{
	return accept(listener, NULL, NULL);
}

static long wait_receive(void)
{
	char byte;

	return recv(sockets[0], &byte, 1, 0);
}

static long wait_receive_for(void)
{
	struct timeval time = LONG_TIME;
	char byte;

	CHECK(!setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	return recv(sockets[0], &byte, 1, 0);
}

static long wait_child(void)
{
	pid_t child = fork_or_die();
	long result;
	int error;

	if (!child)
		for (;;)
			pause();
	result = waitpid(child, NULL, 0);
	error = errno;
	kill(child, SIGKILL);
	errno = error;
	return result;
}

static long wait_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX);
	return sigwaitinfo(&set, NULL);
}

static long wait_open(void)
{
	return open(fifo, O_WRONLY);
}

static long wait_event(void)
{
	uint64_t value;

	return read(eventfd(0, 0), &value, sizeof(value));
}

static long wait_timer(void)
{
	uint64_t value;

	return read(timerfd_create(CLOCK_MONOTONIC, 0), &value, sizeof(value));
}

static const struct {
	const char *name;
	long (*wait)(void);
} calls[] = {
	{ "read", wait_read }, { "write", wait_write }, { "pause", wait_pause },
	{ "sigsuspend", wait_suspend }, { "nanosleep", wait_sleep },
	{ "clock_nanosleep", wait_sleep_until }, { "poll", wait_poll }, { "select", wait_select },
	{ "pselect", wait_pselect }, { "epoll_wait", wait_epoll }, { "futex", wait_futex },
	{ "futex with a time", wait_futex_for }, { "semop", wait_semaphore },
	{ "msgrcv", wait_message }, { "flock", wait_lock }, { "F_SETLKW", wait_record },
	{ "accept", wait_accept }, { "recv", wait_receive },
	{ "recv with a time", wait_receive_for },
	{ "waitpid", wait_child }, { "sigwaitinfo", wait_signal }, { "open of a pipe", wait_open },
	{ "eventfd", wait_event }, { "timerfd", wait_timer },
};

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	shared->handled++;
}

static void prepare(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "\0semantics" };
	struct flock lock = { .l_type = F_WRLCK };
	static char name[64];
	char path[64];

	snprintf(name, sizeof(name), "./fifo-%d", getpid());
	fifo = name;
	CHECK(!pipe(ends) && !pipe(full) && !mkfifo(fifo, 0600));
	CHECK(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(full[1], "x", 1) == 1)
		;
	CHECK(fcntl(full[1], F_SETFL, 0) == 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!bind(listener, (void *)&address, sizeof(address)) && !listen(listener, 1));
	CHECK((empty_queue = msgget(IPC_PRIVATE, 0600)) >= 0);
	CHECK((semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
	shared = map(PAGE, MAP_SHARED);
	/* The child opens the file again: another owner of locks. */
	locked = unnamed_file(1);
	CHECK(!flock(locked, LOCK_EX) && !fcntl(locked, F_SETLK, &lock));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", locked);
	CHECK((locked = open(path, O_RDWR)) >= 0);
}

static bool has_ended(pid_t child)
{
	siginfo_t info = { .si_pid = 0 };

	CHECK(!waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT));
	return info.si_pid;
}

/* The child sleeps in its call again, or it has ended. */
static void wait_until_settled(pid_t child)
{
	while (!has_ended(child) && !is_asleep(child))
		usleep(500);
}

static void stop_and_continue(pid_t child)
{
	int status;

	CHECK(!kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child);
	CHECK(WIFSTOPPED(status) && !kill(child, SIGCONT));
}

/* `flags`: of the handler. -1: it is stopped, and goes on. */
static void interrupt(const char *name, long (*wait)(void), int flags)
{
	bool stops = flags == -1;
	pid_t child;

	shared->handled = 0;
	child = fork_or_die();
	if (!child) {
		long result;

		set_handler(SIGUSR1, on_signal, stops ? 0 : flags);
		set_handler(SIGUSR2, on_signal, 0);
		result = wait();
		printf("  %s, %s: %ld %s after %d\n", name,
		       stops ? "stopped" : flags ? "restart" : "no restart", result,
		       result < 0 ? strerrorname_np(errno) : "", shared->handled);
		fflush(stdout);
		_exit(0);
	}
	wait_until_asleep(child);
	if (stops) {
		stop_and_continue(child);
	} else {
		CHECK(!kill(child, SIGUSR1));
		wait_for_word(&shared->handled, 1);
	}
	wait_until_settled(child);
	/* If it still waits: that ends it. */
	if (!has_ended(child))
		CHECK(!kill(child, SIGUSR2));
	wait_for_success(child);
}

void interrupted_calls(void)
{
	static const int flags[] = { 0, SA_RESTART, -1 };

	prepare();
	fflush(stdout);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (unsigned int j = 0; j < 3; j++)
			interrupt(calls[i].name, calls[i].wait, flags[j]);
	CHECK(!unlink(fifo) && !msgctl(empty_queue, IPC_RMID, NULL));
	CHECK(!semctl(semaphores, 0, IPC_RMID));
}
