// SPDX-License-Identifier: GPL-2.0-only
/* Options of the host's sockets, control messages, ICMP echo. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "net_host_bed.h"

struct option {
	int level, name, value, stored;
};

static void check_option(int fd, int level, int name, int value, int stored)
{
	int got = -1, size = sizeof(got);

	OK(ob_sys_setsockopt(fd, level, name, &value, sizeof(value)));
	OK(ob_sys_getsockopt(fd, level, name, &got, &size));
	CHECK_EQUAL(got, stored);
	CHECK_EQUAL(size, sizeof(got));
}

/* Does any descriptor of the process have this option? */
static bool host_has(int level, int name, int value)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = false;

	CHECK(all);
	while (!found && (entry = readdir(all))) {
		int got = 0;
		socklen_t size = sizeof(got);

		found = !getsockopt(atoi(entry->d_name), level, name, &got, &size) && got == value;
	}
	closedir(all);
	return found;
}

static void set_sysctl(const char *path, const char *text)
{
	unsigned int fd = (unsigned int)OK(ob_sys_openat(AT_FDCWD, path, O_WRONLY, 0));

	CHECK_EQUAL(OK(ob_sys_write(fd, text, strlen(text))), strlen(text));
	OK(ob_sys_close(fd));
}

/* Of the kernel's tcp_* settings, this one counts. */
static void test_syn_retries(void)
{
	struct end ends[2];

	if (ob_sys_mkdir("/proc", 0755))
		CHECK_EQUAL(errno, EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	CHECK(!host_has(IPPROTO_TCP, TCP_SYNCNT, 3));
	set_sysctl("/proc/sys/net/ipv4/tcp_syn_retries", "3");
	connected(&host, &kernel, AF_INET, ends);
	CHECK(host_has(IPPROTO_TCP, TCP_SYNCNT, 3));
	set_sysctl("/proc/sys/net/ipv4/tcp_syn_retries", "6");
	close_both(ends);
	OK(ob_sys_umount2("/proc", 0));
}

/* Only root of the host may set it. */
static void test_mark(int fd, int mine)
{
	int value = 77;

	if (setsockopt(mine, SOL_SOCKET, SO_MARK, &value, sizeof(value))) {
		FAILS(ob_sys_setsockopt(fd, SOL_SOCKET, SO_MARK, &value, sizeof(value)), EPERM);
		return;
	}
	check_option(fd, SOL_SOCKET, SO_MARK, 78, 78);
	CHECK(host_has(SOL_SOCKET, SO_MARK, 78));
}

static void test_numbers(void)
{
	static const struct option good[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, 77, 77 },
		{ IPPROTO_IP, IP_TTL, 33, 33 }, { IPPROTO_IP, IP_TOS, 16, 16 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 }, { SOL_SOCKET, SO_REUSEADDR, 1, 1 },
		{ SOL_SOCKET, SO_RCVLOWAT, 3, 3 }, { SOL_SOCKET, SO_REUSEPORT, 1, 1 },
		{ SOL_SOCKET, SO_BROADCAST, 1, 1 }, { SOL_SOCKET, SO_DONTROUTE, 1, 1 },
		{ SOL_SOCKET, SO_OOBINLINE, 1, 1 }, { SOL_SOCKET, SO_PRIORITY, 5, 5 },
		{ SOL_SOCKET, SO_RXQ_OVFL, 1, 1 }, { SOL_SOCKET, SO_TIMESTAMP, 1, 1 },
	};
	static const struct option bad[] = {
		{ SOL_SOCKET, SO_ATTACH_BPF, 0, 0 }, { SOL_SOCKET, SO_BINDTODEVICE, 0, 0 },
		{ SOL_SOCKET, 9999, 0, 0 }, { IPPROTO_TCP, TCP_ULP, 0, 0 },
		{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, 0 }, { IPPROTO_TCP, 9999, 0, 0 },
		{ IPPROTO_IP, 64, 0, 0 }, { 12345, 1, 0, 0 },
	};
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0)), value = 1;
	int mine = (int)OK(socket(AF_INET, SOCK_STREAM, 0)), kernels = 20000, hosts = 20000;
	int size = sizeof(hosts), type = 0;
	struct tcp_info info;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check_option(fd, good[i].level, good[i].name, good[i].value, good[i].stored);
		CHECK(host_has(good[i].level, good[i].name, good[i].stored));
	}
	test_mark(fd, mine);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FAILS(ob_sys_setsockopt(fd, bad[i].level, bad[i].name, &value, sizeof(value)),
		      ENOPROTOOPT);
	/* The host decides how large a buffer is. */
	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kernels, sizeof(kernels)));
	OK(setsockopt(mine, SOL_SOCKET, SO_SNDBUF, &hosts, sizeof(hosts)));
	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kernels, &size));
	OK(getsockopt(mine, SOL_SOCKET, SO_SNDBUF, &hosts, (socklen_t *)&size));
	CHECK_EQUAL(kernels, hosts);
	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size));
	CHECK_EQUAL(type, SOCK_STREAM);
	size = sizeof(info);
	OK(ob_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
	CHECK(size > 100 && info.tcpi_state == TCP_CLOSE);
	FAILS(ob_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, client_border(), &size), EFAULT);
	OK(ob_sys_close((unsigned int)fd));
	if (has_ipv6()) {
		fd = (int)OK(ob_sys_socket(AF_INET6, SOCK_STREAM, 0));
		check_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, 1);
		OK(ob_sys_close((unsigned int)fd));
	}
	OK(close(mine));
}

/* A control message tells the time to live. One that names files is refused. */
static void test_controls(void)
{
	union { struct cmsghdr first; char bytes[100]; } control;
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	union address here, there;
	int one = bound(&kernel, AF_INET, SOCK_DGRAM, &here);
	int two = bound(&host, AF_INET, SOCK_DGRAM, &there), value = 1, ttl;

	OK(ob_sys_setsockopt(one, IPPROTO_IP, IP_RECVTTL, &value, sizeof(value)));
	value = 44;
	OK(setsockopt(two, IPPROTO_IP, IP_TTL, &value, sizeof(value)));
	OK(sendto(two, "x", 1, 0, &here.any, sizeof(here.in)));
	CHECK_EQUAL(OK(ob_sys_recvmsg(one, &message, 0)), 1);
	CHECK_EQUAL(control.first.cmsg_level, IPPROTO_IP);
	CHECK_EQUAL(control.first.cmsg_type, IP_TTL);
	memcpy(&ttl, CMSG_DATA(&control.first), sizeof(ttl));
	CHECK_EQUAL(ttl, 44);
	OK(ob_sys_connect(one, &there.any, sizeof(there.in)));
	control.first = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.first), &two, sizeof(two));
	message.msg_controllen = CMSG_SPACE(sizeof(int));
	FAILS(ob_sys_sendmsg(one, &message, 0), EINVAL);
	OK(ob_sys_close((unsigned int)one));
	OK(close(two));
}

/* The host may not allow it. */
static void test_echo(void)
{
	int mine = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), error = errno, fd;
	unsigned char request[16] = { 8 }, answer[16];
	union address address = loopback(AF_INET);

	if (mine < 0) {
		FAILS(ob_sys_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), error);
		return;
	}
	OK(close(mine));
	fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	memcpy(request + 8, "contents", 8);
	OK(ob_sys_sendto(fd, request, sizeof(request), 0, &address.any, sizeof(address.in)));
	CHECK_EQUAL(OK(ob_sys_recvfrom(fd, answer, sizeof(answer), 0, NULL, NULL)),
		    sizeof(answer));
	CHECK_EQUAL(answer[0], 0);
	CHECK(!memcmp(answer + 8, "contents", 8));
	OK(ob_sys_close((unsigned int)fd));
}

void test_options(void)
{
	test_numbers();
	test_syn_retries();
	test_controls();
	test_echo();
}
