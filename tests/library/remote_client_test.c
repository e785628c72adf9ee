// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client of a kernel in another process: remote_client_test TEST, with OUTBOARD_SERVER in the
 * environment. Compiled as C and as C++. The program is its own next program: see test_exec().
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <outboard/client_calls.h>
#include "check.h"

enum {
	THREADS = 100,
	CALLS = 200,
	LARGE = 3 * 1024 * 1024 + 17,
	EARLY = 31,
};

/* One that the kernel has, and the host has not. */
static const char name[] = "/a-file-of-the-server";

static unsigned char *noise(size_t length)
{
	unsigned char *bytes = (unsigned char *)malloc(length);
	uint32_t number = 1;

	CHECK(bytes);
	for (size_t i = 0; i < length; i++) {
		number = number * 1664525 + 1013904223;
		bytes[i] = number >> 24;
	}
	return bytes;
}

static void test_files(void)
{
	char text[64];
	struct stat status;
	struct utsname names;
	long file;

	file = ob_sys_open(name, O_RDWR | O_CREAT | O_TRUNC, 0640);
	CHECK(file >= 0);
	CHECK(ob_sys_write(file, "hello", 5) == 5);
	CHECK(ob_sys_lseek(file, 1, SEEK_SET) == 1);
	CHECK(ob_sys_read(file, text, sizeof(text)) == 4 && !memcmp(text, "ello", 4));
	CHECK(ob_sys_fstat(file, &status) == 0 && status.st_size == 5);
	CHECK((status.st_mode & 07777) == 0640);
	CHECK(access(name, F_OK) < 0);
	CHECK(ob_sys_open("/none", O_RDONLY, 0) == -1 && errno == ENOENT);
	CHECK(ob_client_syscall(2, "/none", (long)O_RDONLY) == -ENOENT);
	CHECK(ob_sys_read(99, text, sizeof(text)) == -1 && errno == EBADF);
	CHECK(ob_sys_mkdir("/directory", 0755) == 0 && ob_sys_chdir("/directory") == 0);
	CHECK(ob_sys_getcwd(text, sizeof(text)) == sizeof("/directory"));
	CHECK(!strcmp(text, "/directory") && ob_sys_chdir("/") == 0);
	CHECK(ob_sys_rmdir("/directory") == 0);
	CHECK(ob_sys_symlink(name, "/link") == 0);
	CHECK(ob_sys_readlink("/link", text, sizeof(text)) == (long)strlen(name));
	CHECK(ob_sys_unlink("/link") == 0 && ob_sys_close(file) == 0);
	CHECK(ob_sys_unlink(name) == 0);
	CHECK(ob_sys_uname(&names) == 0 && !strcmp(names.sysname, "Linux"));
	CHECK(ob_sys_mmap(NULL, 4096, 0, 0, -1, 0) == (void *)-1 && errno == EOPNOTSUPP);
}

static void test_large(void)
{
	unsigned char *bytes = noise(LARGE), *again = (unsigned char *)calloc(1, LARGE);
	struct iovec parts[3] = {
		{ again, 1000000 }, { again + 1000000, 7 }, { again + 1000007, LARGE },
	};
	long file = ob_sys_open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct iovec written[2] = { { bytes, 100 }, { bytes + 100, LARGE - 100 } };

	CHECK(file >= 0 && again);
	CHECK(ob_sys_write(file, bytes, LARGE) == LARGE);
	CHECK(ob_sys_pread64(file, again, LARGE, 0) == LARGE && !memcmp(bytes, again, LARGE));
	memset(again, 0, LARGE);
	parts[2].iov_len = LARGE - 1000007;
	CHECK(ob_sys_preadv(file, parts, 3, 0, 0) == LARGE && !memcmp(bytes, again, LARGE));
	CHECK(ob_sys_ftruncate(file, 0) == 0);
	CHECK(ob_sys_pwritev(file, written, 2, 10, 0) == LARGE);
	memset(again, 0, LARGE);
	CHECK(ob_sys_pread64(file, again, LARGE, 10) == LARGE && !memcmp(bytes, again, LARGE));
	CHECK(ob_sys_pread64(file, again, LARGE, 110) == LARGE - 100);
	CHECK(ob_sys_getrandom((char *)again, LARGE, 0) > 0);
	CHECK(ob_sys_close(file) == 0 && ob_sys_unlink(name) == 0);
	free(bytes);
	free(again);
}

static void *read_all(void *context)
{
	long *file = (long *)context, length, all = 0;
	static char buffer[1 << 20];

	while ((length = ob_sys_read(*file, buffer, sizeof(buffer))) > 0)
		all += length;
	CHECK(length == 0);
	return (void *)all;
}

/* A stream and messages, larger than a slot. */
static void test_large_streams(void)
{
	int pair[2], kind = SOCK_STREAM;
	unsigned char *bytes = noise(LARGE);
	pthread_t thread;
	long descriptor;
	void *all;

	for (; kind <= SOCK_DGRAM; kind++) {
		CHECK(ob_sys_socketpair(AF_UNIX, kind, 0, pair) == 0);
		if (kind == SOCK_DGRAM) {
			CHECK(ob_sys_write(pair[0], bytes, LARGE) == -1 && errno == EMSGSIZE);
			continue;
		}
		descriptor = pair[1];
		CHECK(pthread_create(&thread, NULL, read_all, &descriptor) == 0);
		CHECK(ob_sys_write(pair[0], bytes, LARGE) == LARGE);
		CHECK(ob_sys_shutdown(pair[0], SHUT_WR) == 0);
		CHECK(pthread_join(thread, &all) == 0 && (long)all == LARGE);
	}
	free(bytes);
}

static void test_sockets(void)
{
	struct sockaddr_in address = { }, from = { };
	int length = sizeof(from), pair[2], one = 1, value = 0;
	char text[32] = "", control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { (void *)"message", 7 };
	struct msghdr message = { };
	struct pollfd polled;
	long receiver, sender;

	receiver = ob_sys_socket(AF_INET, SOCK_DGRAM, 0);
	sender = ob_sys_socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(receiver >= 0 && sender >= 0);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_ANY);
	CHECK(ob_sys_bind(receiver, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(ob_sys_getsockname(receiver, (struct sockaddr *)&from, &length) == 0);
	CHECK(length == sizeof(from) && from.sin_family == AF_INET);
	length = sizeof(value);
	CHECK(ob_sys_setsockopt(receiver, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	CHECK(ob_sys_getsockopt(receiver, SOL_SOCKET, SO_REUSEADDR, &value, &length) == 0);
	CHECK(value == 1 && length == sizeof(value));

	CHECK(ob_sys_socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	polled.fd = pair[1];
	polled.events = POLLIN;
	CHECK(ob_sys_poll(&polled, 1, 0) == 0 && !polled.revents);
	/* A descriptor travels with the message. */
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &pair[0], sizeof(int));
	CHECK(ob_sys_sendmsg(pair[0], &message, 0) == 7);
	CHECK(ob_sys_poll(&polled, 1, -1) == 1 && polled.revents == POLLIN);
	part.iov_base = text;
	part.iov_len = 4;
	memset(control, 0, sizeof(control));
	CHECK(ob_sys_recvmsg(pair[1], &message, 0) == 4 && !memcmp(text, "mess", 5));
	CHECK(message.msg_flags & MSG_TRUNC);
	memcpy(&value, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	CHECK(value > pair[1] && ob_sys_close(value) == 0);
	CHECK(ob_sys_ioctl(pair[1], FIONREAD, (unsigned long)&value) == 0 && value == 0);
}

static void test_epoll(void)
{
	long set = ob_sys_epoll_create1(0);
	struct epoll_event event = { }, got[8];
	uint64_t one = 1;
	long counter = ob_sys_eventfd2(0, 0);

	event.events = EPOLLIN;
	event.data.u64 = 0x1234567890;
	CHECK(set >= 0 && ob_sys_epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) == 0);
	CHECK(ob_sys_epoll_wait(set, got, 8, 0) == 0);
	CHECK(ob_sys_write(counter, (char *)&one, sizeof(one)) == sizeof(one));
	CHECK(ob_sys_epoll_wait(set, got, 8, -1) == 1 && got[0].data.u64 == 0x1234567890);
}

static void *call_often(void *context)
{
	long thread = ob_sys_gettid(), process = *(long *)context;

	CHECK(thread > 0);
	for (int i = 0; i < CALLS; i++) {
		CHECK(ob_sys_gettid() == thread);
		CHECK(ob_sys_getpid() == process);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	long process = ob_sys_getpid();

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, call_often, &process) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void test_fork(void)
{
	long file = ob_sys_open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	int status, child, pipe[2];
	long own = ob_sys_getpid();
	char letter;
	pid_t host;

	CHECK(file >= 0 && ob_sys_pipe(pipe) == 0);
	child = ob_client_fork(&host);
	CHECK(child >= 0);
	if (!child) {
		CHECK(!*ob_client_error());
		CHECK(ob_sys_getpid() != own && ob_sys_getppid() == own);
		CHECK(ob_sys_write(file, "child", 5) == 5);
		CHECK(ob_sys_write(pipe[1], "x", 1) == 1);
		exit(7);
	}
	CHECK(host > 0 && child != own);
	CHECK(ob_sys_read(pipe[0], &letter, 1) == 1 && letter == 'x');
	CHECK(ob_sys_wait4(child, &status, 0, NULL) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(waitpid(host, &status, 0) == host && WEXITSTATUS(status) == 7);
	/* The position is shared. */
	CHECK(ob_sys_lseek(file, 0, SEEK_CUR) == 5);
	CHECK(ob_sys_unlink(name) == 0);
}

/* A child that is killed in the kernel, and one that is killed on the host. */
static void test_kill(void)
{
	int status, child, pipe[2];
	pid_t host;
	char letter;

	CHECK(ob_sys_pipe(pipe) == 0);
	for (int is_inside = 0; is_inside < 2; is_inside++) {
		child = ob_client_fork(&host);
		CHECK(child >= 0);
		if (!child) {
			long result;

			/* The parent may kill it before it has the result. */
			ob_sys_write(pipe[1], "x", 1);
			result = ob_client_syscall(34);

			/* Killed in the kernel: its connection ends, and nothing else. */
			CHECK(result == -ESRCH || result == -ENOTCONN);
			CHECK(ob_client_syscall(39) < 0);
			_exit(9);
		}
		CHECK(ob_sys_read(pipe[0], &letter, 1) == 1);
		CHECK((is_inside ? ob_sys_kill(child, SIGKILL) : kill(host, SIGKILL)) == 0);
		CHECK(ob_sys_wait4(child, &status, 0, NULL) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		CHECK(waitpid(host, &status, 0) == host);
		CHECK(is_inside ? WEXITSTATUS(status) == 9 : WTERMSIG(status) == SIGKILL);
	}
}

static void test_credentials(void)
{
	int status, child = ob_client_fork(NULL);

	CHECK(child >= 0);
	if (!child) {
		CHECK(ob_sys_setresgid(1000, 1000, 1000) == 0);
		CHECK(ob_sys_setresuid(1000, 1000, 1000) == 0 && ob_sys_getuid() == 1000);
		CHECK(ob_sys_kill(ob_sys_getppid(), SIGTERM) == -1 && errno == EPERM);
		CHECK(ob_sys_setuid(0) == -1 && errno == EPERM);
		exit(0);
	}
	CHECK(ob_sys_wait4(child, &status, 0, NULL) == child && status == 0);
	CHECK(ob_sys_getuid() == 0);
}

/* Version 1 of the header has a third of the data. The call leaves the bytes behind it. */
static void test_capabilities(void)
{
	struct { uint32_t version; int pid; } header = { 0x19980330, 0 };
	struct { uint32_t sets[3], behind[3]; } first;
	uint32_t third[6];

	memset(&first, 0x5a, sizeof(first));
	CHECK(ob_client_syscall(125, &header, &first) == 0);
	CHECK(first.sets[0] != 0x5a5a5a5a && first.behind[0] == 0x5a5a5a5a);
	CHECK(ob_client_syscall(126, &header, &first) == 0);
	header.version = 0x20080522;
	memset(third, 0x5a, sizeof(third));
	CHECK(ob_client_syscall(125, &header, third) == 0);
	CHECK(third[0] == first.sets[0] && third[5] != 0x5a5a5a5a);
	/* The kernel says which versions it has. */
	header.version = 0;
	CHECK(ob_client_syscall(125, &header, NULL) == 0 && header.version == 0x20080522);
}

static bool dies_early;

static void die_early(void)
{
	if (dies_early)
		_exit(3);
}

/*
 * Children that end before they attach. Each would hold its parent for 10 s, and all of them longer
 * than the test may take.
 */
static void test_early(void)
{
	struct timespec moment = { 0, 500000000 };
	int child, status;
	pid_t host;

	CHECK(pthread_atfork(NULL, NULL, die_early) == 0);
	dies_early = true;
	for (int i = 0; i < EARLY; i++) {
		child = ob_client_fork(&host);
		CHECK(child > 0);
		if (i % 2)
			CHECK(waitpid(host, &status, 0) == host && WEXITSTATUS(status) == 3);
		CHECK(ob_sys_wait4(child, &status, 0, NULL) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	/* One that lives is no such child. */
	dies_early = false;
	child = ob_client_fork(&host);
	CHECK(child >= 0);
	if (!child)
		exit(ob_sys_nanosleep(&moment, NULL) == 0 ? 4 : 5);
	CHECK(ob_sys_wait4(child, &status, 0, NULL) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
}

static void nothing(int signal)
{
	(void)signal;
}

static void test_signals(void)
{
	struct sigaction action;
	struct itimerval soon = { { 0, 0 }, { 0, 50000 } };
	struct timespec minute = { 60, 0 }, left;

	memset(&action, 0, sizeof(action));
	action.sa_handler = nothing;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	CHECK(ob_sys_nanosleep(&minute, &left) == -1 && errno == EINTR);
	CHECK(left.tv_sec >= 50 && left.tv_sec < 60);
	CHECK(ob_sys_getpid() > 0);
}

static void *one_call(void *context)
{
	(void)context;
	return (void *)ob_sys_getpid();
}

static void *wait_and_call(void *context)
{
	pthread_barrier_t *barrier = (pthread_barrier_t *)context;

	CHECK(ob_sys_getpid() > 0);
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return one_call(NULL);
}

/* The host refuses the program: this one goes on, and its threads. */
static void fail_to_execute(const char *own)
{
	char path[512], *words[] = { path, NULL }, *none[] = { NULL };
	int file = (snprintf(path, sizeof(path), "%s-XXXXXX", own), mkstemp(path));
	long gone = ob_sys_open("/", O_RDONLY | O_CLOEXEC, 0);
	pthread_barrier_t barrier;
	pthread_t thread;
	void *process;

	CHECK(file >= 0 && write(file, "\177ELF", 4) == 4 && fchmod(file, 0700) == 0);
	close(file);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(pthread_create(&thread, NULL, wait_and_call, &barrier) == 0);
	pthread_barrier_wait(&barrier);
	CHECK(ob_client_execve(path, words, none) == -ENOEXEC);
	unlink(path);
	CHECK(ob_sys_fcntl(gone, F_GETFD, 0) == -1 && errno == EBADF);
	pthread_barrier_wait(&barrier);
	CHECK(pthread_join(thread, &process) == 0 && (long)process == ob_sys_getpid());
	CHECK(pthread_create(&thread, NULL, one_call, NULL) == 0);
	CHECK(pthread_join(thread, &process) == 0 && (long)process == ob_sys_getpid());
}

/* The next program has the process and the open descriptors. */
static void test_exec(char *own)
{
	char file[16], closed[16], process[16];
	char *words[] = { own, (char *)"executed", file, closed, process, NULL };
	char *environment[] = { (char *)"OUTBOARD_SESSION=old", (char *)"A=B", NULL };
	long kept = ob_sys_open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	long gone = ob_sys_open("/", O_RDONLY | O_CLOEXEC, 0);

	CHECK(ob_client_execve("/none", words, environment) == -ENOENT);
	CHECK(!strncmp(ob_client_error(), "cannot execute /none: ", 22));
	CHECK(ob_sys_fcntl(gone, F_GETFD, 0) == FD_CLOEXEC);
	CHECK(ob_sys_write(kept, "before", 6) == 6);
	fail_to_execute(own);
	gone = ob_sys_open("/", O_RDONLY | O_CLOEXEC, 0);
	snprintf(file, sizeof(file), "%ld", kept);
	snprintf(closed, sizeof(closed), "%ld", gone);
	snprintf(process, sizeof(process), "%ld", ob_sys_getpid());
	ob_client_execve(own, words, environment);
	fprintf(stderr, "%s\n", ob_client_error());
	CHECK(0);
}

static int executed(char **words)
{
	long kept = atol(words[0]), gone = atol(words[1]);
	char text[8];

	CHECK(ob_client_connect(NULL) == 0);
	CHECK(!getenv("OUTBOARD_SESSION") && !strcmp(getenv("A"), "B"));
	CHECK(ob_sys_getpid() == atol(words[2]));
	CHECK(ob_sys_fcntl(gone, F_GETFD, 0) == -1 && errno == EBADF);
	CHECK(ob_sys_pread64(kept, text, sizeof(text), 0) == 6 && !memcmp(text, "before", 6));
	CHECK(ob_sys_unlink(name) == 0);
	return 0;
}

/* The descriptors of the library are out of the program's way, and of its next one's. */
static void check_descriptors(void)
{
	int low = dup(0);

	CHECK(low >= 0 && low < 10 && close(low) == 0);
	CHECK(ob_sys_getpid() > 0 && dup(0) == low && close(low) == 0);
	if (getdtablesize() > 1000)
		CHECK(fcntl(1000, F_GETFD) == FD_CLOEXEC && fcntl(1001, F_GETFD) == -1);
}

static void test_connections(void)
{
	check_descriptors();
	CHECK(ob_client_connect(NULL) == -EISCONN && *ob_client_error());
	CHECK(ob_client_set_reconnect(9, 0) == -EINVAL);
	ob_client_disconnect();
	CHECK(ob_client_syscall(39) == -ENOTCONN);
	CHECK(ob_client_connect("tcp:nowhere") == -EINVAL);
	CHECK(ob_client_connect("unix:/nowhere/socket") == -ENOENT);
	CHECK(ob_client_connect(NULL) == 0 && ob_sys_getpid() > 0);
	check_descriptors();
	/* A child of the host's fork() has none. */
	pid_t host = fork();
	int status;

	if (!host)
		_exit(ob_client_syscall(39) != -ENOTCONN);
	CHECK(waitpid(host, &status, 0) == host && status == 0);
}

/* Waits until the test has killed the server, and started another one. */
static void test_reconnect(void)
{
	long process = ob_sys_getpid();

	CHECK(ob_client_set_reconnect(OB_CLIENT_SECONDS, 60) == 0);
	puts("ready");
	fflush(stdout);
	CHECK(process > 0 && ob_client_syscall(34) == -ENOTCONN);
	CHECK(ob_sys_getpid() > 0);
	CHECK(ob_client_set_reconnect(OB_CLIENT_DIE, 0) == 0);
	puts("again");
	fflush(stdout);
	ob_sys_pause();
	CHECK(0);
}

static void test_hold(void)
{
	CHECK(ob_sys_open("/", O_RDONLY, 0) >= 0);
	puts("ready");
	fflush(stdout);
	ob_sys_pause();
}

/* The host's copy of the process is no reason for the kernel's to stay. It ends with its input. */
static void test_orphan(void)
{
	char byte;

	CHECK(ob_sys_getpid() > 0);
	if (!fork()) {
		puts("ready");
		fflush(stdout);
		_exit(read(0, &byte, 1) != 0);
	}
	ob_sys_pause();
}

/* The thread that executes is not the first one. */
static void *execute(void *context)
{
	CHECK(ob_sys_getpid() > 0);
	test_exec((char *)context);
	return NULL;
}

static void test_thread_exec(char *own)
{
	pthread_t thread;

	CHECK(ob_sys_getpid() > 0);
	CHECK(pthread_create(&thread, NULL, execute, own) == 0);
	pthread_join(thread, NULL);
	CHECK(0);
}

struct test {
	const char *name;
	void (*run)(void);
};

static const struct test tests[] = {
	{ "files", test_files },
	{ "large", test_large },
	{ "large-streams", test_large_streams },
	{ "sockets", test_sockets },
	{ "epoll", test_epoll },
	{ "threads", test_threads },
	{ "fork", test_fork },
	{ "kill", test_kill },
	{ "credentials", test_credentials },
	{ "capabilities", test_capabilities },
	{ "early", test_early },
	{ "signals", test_signals },
	{ "connections", test_connections },
	{ "reconnect", test_reconnect },
	{ "hold", test_hold },
	{ "orphan", test_orphan },
};

int main(int count, char **words)
{
	if (count == 5 && !strcmp(words[1], "executed"))
		return executed(words + 2);
	if (ob_client_connect(NULL))
		return fprintf(stderr, "%s\n", ob_client_error()), 1;
	if (count == 2 && !strcmp(words[1], "exec"))
		test_exec(words[0]);
	if (count == 2 && !strcmp(words[1], "thread-exec"))
		test_thread_exec(words[0]);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (count == 2 && !strcmp(words[1], tests[i].name)) {
			tests[i].run();
			return 0;
		}
	}
	return 2;
}
