// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of sockets, files and pipes that knows nothing of Outboard. Its test compiles it twice:
 * as it is, when its sockets are the host's, and with -include outboard/sockets.h. Both do the
 * same, except that a port of the kernel is not open on the host.
 *
 *   sockets_test CASE FILE
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define OK(call)                                                                       \
	({                                                                             \
		long ok_ = (long)(call);                                               \
		if (ok_ == -1) {                                                       \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #call); \
			_Exit(1);                                                      \
		}                                                                      \
		ok_;                                                                   \
	})

static const char *file_path;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Listens at a free port of loopback. */
static int listener(struct sockaddr_in *address)
{
	int fd = (int)OK(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	OK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	OK(bind(fd, (struct sockaddr *)address, sizeof(*address)));
	OK(listen(fd, 5));
	OK(getsockname(fd, (struct sockaddr *)address, &length));
	CHECK(length == sizeof(*address) && address->sin_port);
	return fd;
}

/* Both ends of a connection. */
static void connected(int ends[2])
{
	struct sockaddr_in address;
	int fd = listener(&address);

	ends[0] = (int)OK(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	OK(connect(ends[0], (struct sockaddr *)&address, sizeof(address)));
	ends[1] = (int)OK(accept(fd, NULL, NULL));
	OK(close(fd));
}

static bool is_readable(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return OK(poll(&one, 1, 0)) == 1;
}

static void expect_text(int fd, const char *wanted)
{
	char text[64] = "";
	long length = OK(read(fd, text, sizeof(text) - 1));

	if (length != (long)strlen(wanted) || memcmp(text, wanted, (size_t)length)) {
		fprintf(stderr, "read \"%s\", not \"%s\"\n", text, wanted);
		_Exit(1);
	}
}

static void send_text(int fd, const char *text)
{
	CHECK_EQUAL(OK(write(fd, text, strlen(text))), (long)strlen(text));
}

/* As far as the host allows it. Returns the limit. */
static int raise_limit(rlim_t wanted)
{
	struct rlimit limit;

	OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	OK(setrlimit(RLIMIT_NOFILE, &limit));
	return (int)limit.rlim_cur;
}

/* The host's limit counts, and no other one. */
static void test_limit(void)
{
	int limit = raise_limit(6000), last = -1;

	for (int fd = 0; fd >= 0; last = fd < 0 ? last : fd)
		fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK_EQUAL(errno, EMFILE);
	CHECK_EQUAL(last, limit - 1);
	OK(close(last));
	CHECK_EQUAL(OK(socket(AF_INET, SOCK_DGRAM, 0)), last);
}

#define ORPHANS 4500
#define ORPHAN_BYTES 20000

/* A client that takes few bytes before it reads. */
static int slow_client(const struct sockaddr_in *address)
{
	int fd = (int)OK(socket(AF_INET, SOCK_STREAM, 0)), room = 2048;

	OK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	OK(connect(fd, (const struct sockaddr *)address, sizeof(*address)));
	return fd;
}

/* A server closes connections whose clients do not have all data yet. They get the rest. */
static void test_orphans(void)
{
	static char bytes[ORPHAN_BYTES];
	static int clients[ORPHANS];
	struct sockaddr_in address;
	int server;

	raise_limit(ORPHANS + 100);
	server = listener(&address);
	for (int i = 0; i < ORPHANS; i++) {
		int fd;

		clients[i] = slow_client(&address);
		fd = (int)OK(accept(server, NULL, NULL));
		memset(bytes, i, sizeof(bytes));
		CHECK_EQUAL(write(fd, bytes, sizeof(bytes)), ORPHAN_BYTES);
		OK(close(fd));
	}
	for (int i = 0; i < ORPHANS; i++) {
		CHECK_EQUAL(OK(recv(clients[i], bytes, sizeof(bytes), MSG_WAITALL)), ORPHAN_BYTES);
		for (int at = 0; at < ORPHAN_BYTES; at++)
			CHECK_EQUAL(bytes[at], (char)i);
		CHECK_EQUAL(OK(read(clients[i], bytes, 1)), 0);
		OK(close(clients[i]));
	}
}

static void test_descriptors(void)
{
	int ends[2], file = (int)OK(open(file_path, O_RDONLY)), copy, last;
	struct stat status;

	connected(ends);
	CHECK(ends[0] != file && ends[1] != file && ends[0] != ends[1]);
	/* The lowest free number, as everywhere. */
	OK(close(file));
	CHECK_EQUAL(OK(socket(AF_INET, SOCK_DGRAM, 0)), file);
	OK(close(file));
	CHECK_EQUAL(OK(open(file_path, O_RDONLY)), file);
	copy = (int)OK(dup(ends[0]));
	OK(close(ends[0]));
	send_text(copy, "by a copy");
	expect_text(ends[1], "by a copy");
	/* A socket in the place of a file, and a file in the place of a socket. */
	CHECK_EQUAL(OK(dup2(copy, file)), file);
	send_text(file, "there");
	expect_text(ends[1], "there");
	last = (int)OK(open(file_path, O_RDONLY));
	CHECK_EQUAL(OK(dup2(last, file)), file);
	expect_text(file, "contents of the file");
	CHECK_EQUAL(OK(dup2(copy, copy)), copy);
	CHECK_EQUAL(OK(fcntl(copy, F_DUPFD, 100)), 100);
	send_text(100, "a hundred");
	expect_text(ends[1], "a hundred");
	CHECK_EQUAL(OK(fcntl(100, F_GETFD)), 0);
	OK(fcntl(100, F_SETFD, FD_CLOEXEC));
	CHECK_EQUAL(OK(fcntl(100, F_GETFD)), FD_CLOEXEC);
	OK(fstat(100, &status));
	CHECK(S_ISSOCK(status.st_mode));
	OK(fstat(file, &status));
	CHECK(S_ISREG(status.st_mode));
	/* The last one closes the connection. */
	OK(close(100));
	CHECK(!is_readable(ends[1]));
	OK(close(copy));
	expect_text(ends[1], "");
	CHECK(close(copy) == -1 && errno == EBADF);
	CHECK(write(copy, "", 1) == -1 && errno == EBADF);
}

static void test_calls(void)
{
	struct iovec pieces[2] = { { "one", 3 }, { "two", 3 } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
	int ends[2], count, on = 1, pair[2];
	struct sockaddr_in address, peer;
	socklen_t length = sizeof(peer);
	char text[16];
	FILE *stream;

	connected(ends);
	CHECK_EQUAL(OK(writev(ends[0], pieces, 2)), 6);
	CHECK_EQUAL(OK(recv(ends[1], text, sizeof(text), MSG_PEEK)), 6);
	OK(ioctl(ends[1], FIONREAD, &count));
	CHECK_EQUAL(count, 6);
	pieces[0] = (struct iovec){ text, 2 };
	pieces[1] = (struct iovec){ text + 2, 4 };
	CHECK_EQUAL(OK(readv(ends[1], pieces, 2)), 6);
	CHECK(!memcmp(text, "onetwo", 6));
	CHECK_EQUAL(OK(sendmsg(ends[0], &message, 0)), 6);
	CHECK_EQUAL(OK(recvmsg(ends[1], &message, MSG_WAITALL)), 6);
	OK(fcntl(ends[1], F_SETFL, O_NONBLOCK));
	CHECK(OK(fcntl(ends[1], F_GETFL)) & O_NONBLOCK);
	CHECK(read(ends[1], text, 1) == -1 && errno == EAGAIN);
	OK(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	length = sizeof(on);
	OK(getsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, &length));
	CHECK(on && length == sizeof(on));
	length = sizeof(peer);
	OK(getpeername(ends[0], (struct sockaddr *)&peer, &length));
	length = sizeof(address);
	OK(getsockname(ends[1], (struct sockaddr *)&address, &length));
	CHECK(address.sin_port == peer.sin_port);
	OK(shutdown(ends[0], SHUT_WR));
	OK(fcntl(ends[1], F_SETFL, 0));
	expect_text(ends[1], "");
	/* A stream on a socket. */
	stream = fdopen(ends[1], "w");
	CHECK(stream && fprintf(stream, "%d lines\n", 3) == 8 && !fclose(stream));
	expect_text(ends[0], "3 lines\n");
	/* Local sockets. */
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	send_text(pair[0], "local");
	expect_text(pair[1], "local");
	CHECK(socket(AF_INET, 99, 0) == -1 && errno == EINVAL);
}

static void test_datagrams(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, from;
	int fd = (int)OK(socket(AF_INET, SOCK_DGRAM, 0)), other;
	socklen_t length = sizeof(address);
	char text[16];

	OK(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	OK(getsockname(fd, (struct sockaddr *)&address, &length));
	other = (int)OK(socket(AF_INET, SOCK_DGRAM, 0));
	OK(sendto(other, "hello", 5, 0, (struct sockaddr *)&address, sizeof(address)));
	length = sizeof(from);
	CHECK_EQUAL(OK(recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &length)), 5);
	OK(connect(fd, (struct sockaddr *)&from, length));
	OK(send(fd, "back", 4, 0));
	expect_text(other, "back");
}

static void *write_later(void *argument)
{
	usleep(100000);
	send_text(*(int *)argument, "later");
	return NULL;
}

/* Waits with `wait` while another thread writes to `fd`; takes the text from `other`. */
#define WHILE_WRITING(fd, other, wait)                                            \
	do {                                                                      \
		pthread_t thread_;                                                \
		CHECK(!pthread_create(&thread_, NULL, write_later, &(fd)));       \
		wait;                                                             \
		expect_text(other, "later");                                      \
		CHECK(!pthread_join(thread_, NULL));                              \
	} while (0)

static void test_poll(void)
{
	struct pollfd all[3];
	int ends[2], tube[2];
	double start;

	connected(ends);
	OK(pipe(tube));
	all[0] = (struct pollfd){ .fd = ends[1], .events = POLLIN };
	all[1] = (struct pollfd){ .fd = -1, .events = POLLIN };
	all[2] = (struct pollfd){ .fd = tube[0], .events = POLLIN };
	for (int round = 0; round < 3; round++) {
		WHILE_WRITING(ends[0], ends[1], CHECK_EQUAL(OK(poll(all, 3, -1)), 1));
		CHECK(all[0].revents == POLLIN && !all[1].revents && !all[2].revents);
		WHILE_WRITING(tube[1], tube[0], CHECK_EQUAL(OK(poll(all, 3, 10000)), 1));
		CHECK(!all[0].revents && all[2].revents == POLLIN);
		/* Only sockets, only pipes. */
		WHILE_WRITING(ends[0], ends[1], CHECK_EQUAL(OK(poll(all, 2, -1)), 1));
		WHILE_WRITING(tube[1], tube[0], CHECK_EQUAL(OK(poll(all + 1, 2, -1)), 1));
	}
	start = seconds();
	CHECK_EQUAL(OK(poll(all, 3, 200)), 0);
	CHECK(seconds() - start >= 0.19);
	CHECK_EQUAL(OK(ppoll(all, 3, &(struct timespec){ 0, 1000000 }, NULL)), 0);
	send_text(ends[0], "both");
	send_text(tube[1], "both");
	CHECK_EQUAL(OK(poll(all, 3, 5000)), 2);
	OK(close(tube[1]));
	OK(close(ends[0]));
	expect_text(tube[0], "both");
	CHECK_EQUAL(OK(poll(all + 2, 1, -1)), 1);
	CHECK_EQUAL(all[2].revents, POLLHUP);
}

static int select_two(int one, int other, fd_set *readable, struct timeval *timeout)
{
	FD_ZERO(readable);
	FD_SET(one, readable);
	FD_SET(other, readable);
	return select((one > other ? one : other) + 1, readable, NULL, NULL, timeout);
}

static void test_select(void)
{
	int ends[2], tube[2];
	struct timeval left = { 10, 0 };
	fd_set readable, writable;

	connected(ends);
	OK(pipe(tube));
	WHILE_WRITING(ends[0], ends[1],
		      CHECK_EQUAL(OK(select_two(ends[1], tube[0], &readable, NULL)), 1));
	CHECK(FD_ISSET(ends[1], &readable) && !FD_ISSET(tube[0], &readable));
	WHILE_WRITING(tube[1], tube[0],
		      CHECK_EQUAL(OK(select_two(ends[1], tube[0], &readable, &left)), 1));
	CHECK(!FD_ISSET(ends[1], &readable) && FD_ISSET(tube[0], &readable));
	CHECK(left.tv_sec == 9);
	left = (struct timeval){ 0, 1000 };
	CHECK_EQUAL(OK(select_two(ends[1], tube[0], &readable, &left)), 0);
	CHECK(!FD_ISSET(ends[1], &readable) && !left.tv_sec && !left.tv_usec);
	FD_ZERO(&writable);
	FD_SET(ends[1], &writable);
	send_text(ends[0], "x");
	CHECK(is_readable(ends[1]));
	FD_SET(ends[1], &readable);
	CHECK_EQUAL(OK(select(FD_SETSIZE, &readable, &writable, NULL, NULL)), 2);
	OK(close(tube[0]));
	FD_SET(tube[0], &readable);
	CHECK(select(FD_SETSIZE, &readable, NULL, NULL, NULL) == -1 && errno == EBADF);
	CHECK(select(-1, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL);
}

static void test_epoll(void)
{
	int ends[2], epoll = (int)OK(epoll_create1(EPOLL_CLOEXEC)), tube[2];
	struct epoll_event got[4], wanted = { .events = EPOLLIN };

	connected(ends);
	OK(pipe(tube));
	wanted.data.u64 = 1;
	OK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &wanted));
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, 0)), 0);
	WHILE_WRITING(ends[0], ends[1], CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, -1)), 1));
	CHECK_EQUAL(got[0].data.u64, 1);
	/* With members of the host, too. */
	wanted.data.u64 = 2;
	OK(epoll_ctl(epoll, EPOLL_CTL_ADD, tube[0], &wanted));
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, tube[0], &wanted) == -1 && errno == EEXIST);
	WHILE_WRITING(ends[0], ends[1], CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, -1)), 1));
	CHECK_EQUAL(got[0].data.u64, 1);
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, 50)), 0);
	WHILE_WRITING(tube[1], tube[0], CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, -1)), 1));
	CHECK_EQUAL(got[0].data.u64, 2);
	send_text(ends[0], "x");
	send_text(tube[1], "x");
	CHECK(is_readable(ends[1]));
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, -1)), 2);
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 1, -1)), 1);
	OK(epoll_ctl(epoll, EPOLL_CTL_DEL, tube[0], NULL));
	wanted.events = EPOLLIN | EPOLLET;
	wanted.data.u64 = 3;
	OK(epoll_ctl(epoll, EPOLL_CTL_MOD, ends[1], &wanted));
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, -1)), 1);
	CHECK_EQUAL(got[0].data.u64, 3);
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, 50)), 0);
	/* The instance is a descriptor that can be closed, and that forgets closed members. */
	OK(close(ends[1]));
	CHECK_EQUAL(OK(epoll_wait(epoll, got, 4, 0)), 0);
	OK(close(epoll));
	CHECK(epoll_wait(epoll, got, 4, 0) == -1 && errno == EBADF);
}

static void test_sendfile(void)
{
	int ends[2], file = (int)OK(open(file_path, O_RDONLY));
	off_t offset = 9;

	connected(ends);
	CHECK_EQUAL(OK(sendfile(ends[0], file, &offset, 2)), 2);
	CHECK_EQUAL(offset, 11);
	expect_text(ends[1], "of");
	CHECK_EQUAL(OK(lseek(file, 0, SEEK_CUR)), 0);
	CHECK_EQUAL(OK(sendfile(ends[0], file, NULL, 8)), 8);
	CHECK_EQUAL(OK(lseek(file, 0, SEEK_CUR)), 8);
	expect_text(ends[1], "contents");
	CHECK_EQUAL(OK(sendfile(ends[0], file, NULL, 1000)), 12);
	expect_text(ends[1], " of the file");
	CHECK_EQUAL(OK(sendfile(ends[0], file, NULL, 1000)), 0);
	file = (int)OK(open("/dev/null", O_WRONLY));
	CHECK(sendfile(file, ends[0], NULL, 1) == -1 && errno == EINVAL);
}

static volatile int handled;

static void on_signal(int number)
{
	handled = number;
}

static void on_signal_with_info(int number, siginfo_t *info, void *context)
{
	CHECK(info->si_signo == number && context);
	handled = number;
}

struct target {
	pthread_t thread;
	int fd;
};

/* A signal, and, later, data for a call that restarts. */
static void *signal_and_write(void *argument)
{
	struct target *target = argument;

	usleep(100000);
	CHECK(!pthread_kill(target->thread, SIGUSR1));
	usleep(100000);
	send_text(target->fd, "restarted");
	return NULL;
}

/* The call runs while a signal comes, then data. */
#define WHILE_SIGNALLED(fd_, call)                                                      \
	do {                                                                            \
		struct target target_ = { pthread_self(), fd_ };                        \
		pthread_t thread_;                                                      \
		handled = 0;                                                            \
		CHECK(!pthread_create(&thread_, NULL, signal_and_write, &target_));     \
		call;                                                                   \
		CHECK_EQUAL(handled, SIGUSR1);                                          \
		CHECK(!pthread_join(thread_, NULL));                                    \
	} while (0)

static void test_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_signal_with_info, .sa_flags = SA_SIGINFO };
	struct sigaction old;
	struct pollfd socket_only, both[2];
	sigset_t blocked, before;
	int ends[2], tube[2];
	char text[64];
	fd_set set;

	connected(ends);
	OK(pipe(tube));
	socket_only = both[0] = (struct pollfd){ .fd = ends[1], .events = POLLIN };
	both[1] = (struct pollfd){ .fd = tube[0], .events = POLLIN };
	OK(sigaction(SIGUSR1, &action, NULL));
	WHILE_SIGNALLED(ends[0], CHECK(read(ends[1], text, 1) == -1 && errno == EINTR));
	expect_text(ends[1], "restarted");
	WHILE_SIGNALLED(ends[0], CHECK(poll(&socket_only, 1, -1) == -1 && errno == EINTR));
	expect_text(ends[1], "restarted");
	WHILE_SIGNALLED(ends[0], CHECK(poll(both, 2, -1) == -1 && errno == EINTR));
	expect_text(ends[1], "restarted");
	WHILE_SIGNALLED(tube[1], CHECK(poll(both + 1, 1, -1) == -1 && errno == EINTR));
	expect_text(tube[0], "restarted");
	FD_ZERO(&set);
	FD_SET(ends[1], &set);
	WHILE_SIGNALLED(ends[0], CHECK(select(ends[1] + 1, &set, NULL, NULL, NULL) == -1 &&
				       errno == EINTR));
	expect_text(ends[1], "restarted");
	/* A handler of signal() lets calls restart, but not these. */
	CHECK((void *)signal(SIGUSR1, on_signal) == (void *)on_signal_with_info);
	WHILE_SIGNALLED(ends[0], expect_text(ends[1], "restarted"));
	WHILE_SIGNALLED(ends[0], CHECK(poll(&socket_only, 1, -1) == -1 && errno == EINTR));
	expect_text(ends[1], "restarted");
	OK(sigaction(SIGUSR1, NULL, &old));
	CHECK(old.sa_handler == on_signal && old.sa_flags & SA_RESTART);
	/* Nothing is left over. */
	CHECK_EQUAL(OK(poll(&socket_only, 1, 50)), 0);
	/* A blocked signal arrives in the wait. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &blocked, &before));
	raise(SIGUSR1);
	handled = 0;
	CHECK(ppoll(&socket_only, 1, NULL, &before) == -1 && errno == EINTR && handled);
	CHECK(signal(SIGUSR1, SIG_IGN) == on_signal && signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

/* A peer that closes: no signal ends the program, if it ignores that one. */
static void test_closed_peer(void)
{
	int ends[2], results = 0;

	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	connected(ends);
	OK(close(ends[1]));
	for (int i = 0; i < 100 && !results; i++, usleep(10000))
		results = write(ends[0], "x", 1) == -1 ? errno : 0;
	CHECK(results == EPIPE || results == ECONNRESET);
}

/* Many threads that wait for both kinds at once. */
static void *wait_for_both(void *unused)
{
	struct pollfd all[2];
	int ends[2], tube[2];

	(void)unused;
	connected(ends);
	OK(pipe(tube));
	all[0] = (struct pollfd){ .fd = ends[1], .events = POLLIN };
	all[1] = (struct pollfd){ .fd = tube[0], .events = POLLIN };
	for (int i = 0; i < 50; i++) {
		int to = i % 2 ? ends[0] : tube[1];

		CHECK_EQUAL(OK(poll(all, 2, 1)), 0);
		send_text(to, "x");
		CHECK_EQUAL(OK(poll(all, 2, -1)), 1);
		expect_text(i % 2 ? ends[1] : tube[0], "x");
	}
	for (int i = 0; i < 2; i++)
		OK(close(ends[i]) | close(tube[i]));
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[16];

	for (int i = 0; i < 16; i++)
		CHECK(!pthread_create(&threads[i], NULL, wait_for_both, NULL));
	for (int i = 0; i < 16; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* Prints a port that the test looks for on the host, and waits for its input. */
static void test_port(void)
{
	struct sockaddr_in address;
	char byte;

	listener(&address);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	CHECK(read(0, &byte, 1) >= 0);
}

#define DRAINED_BYTES (1 << 20)

struct reader {
	int from, to;
};

/* Reads slowly, and writes the number of bytes into the file. */
static void *read_slowly(void *argument)
{
	struct reader *reader = argument;
	char buffer[16384], text[32];
	long total = 0, length;

	while ((length = read(reader->from, buffer, sizeof(buffer))) > 0) {
		total += length;
		snprintf(text, sizeof(text), "%ld", total);
		CHECK(pwrite(reader->to, text, strlen(text), 0) == (long)strlen(text));
		usleep(2000);
	}
	return NULL;
}

/* Ends while much of what it has written is in the send buffer. */
static void test_drain(void)
{
	static struct reader reader;
	static char data[DRAINED_BYTES];
	int fd, size = 2 * DRAINED_BYTES, small = 32768;
	struct sockaddr_in address;
	pthread_t thread;
	int server = listener(&address);

	OK(setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
	fd = (int)OK(socket(AF_INET, SOCK_STREAM, 0));
	OK(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)));
	OK(connect(fd, (struct sockaddr *)&address, sizeof(address)));
	reader.from = (int)OK(accept(server, NULL, NULL));
	reader.to = (int)OK(open(file_path, O_RDWR));
	OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	CHECK_EQUAL(OK(write(fd, data, sizeof(data))), DRAINED_BYTES);
	CHECK(!pthread_create(&thread, NULL, read_slowly, &reader));
	usleep(10000);
	OK(close(fd));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "descriptors", test_descriptors }, { "calls", test_calls },
	{ "datagrams", test_datagrams },     { "poll", test_poll },
	{ "select", test_select },	     { "epoll", test_epoll },
	{ "sendfile", test_sendfile },	     { "signals", test_signals },
	{ "closed-peer", test_closed_peer }, { "threads", test_threads },
	{ "port", test_port },		     { "drain", test_drain },
	{ "limit", test_limit },	     { "orphans", test_orphans },
};

int main(int count, char **arguments)
{
	CHECK(count == 3);
	file_path = arguments[2];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, arguments[1]))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "no such case: %s\n", arguments[1]);
	return 2;
}
