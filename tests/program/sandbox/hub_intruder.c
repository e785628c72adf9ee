// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands for a virtual machine that has taken over the server of `outboard hub`. Preloaded, it
 * makes system calls of its own when the server receives a front-end's first message, and prints
 * the result of each. It also sends requests to the process that opens files for the server.
 *
 * Files of the current directory: "kept", and the standard input of the command, which has the size
 * of a hub's bell.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* As hub_open.c has it. */
struct request {
	uint32_t file;
	int32_t process, number;
};

enum { HUB_FILE, MEMORY, BELL, UNKNOWN };

static long parent;
static int opener = -1;
static bool is_done;

/* Before the server is copied from the process outside. */
__attribute__((constructor)) static void remember_parent(void)
{
	parent = getpid();
}

/* The result, or -errno. */
static long host(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = e;
	register long r9 asm("r9") = f;
	long result;

	asm volatile("syscall" : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
}

static void attempt(const char *what, long result)
{
	dprintf(2, "escape: %s %ld\n", what, result);
}

static long fork_once(void)
{
	long child = host(SYS_fork, 0, 0, 0, 0, 0, 0);

	if (child == 0)
		host(SYS_exit, 0, 0, 0, 0, 0, 0);
	return child;
}

/* The opener's error, or 0 if it sent a descriptor. */
static long ask(uint32_t file, int32_t process, int32_t number)
{
	struct request request = { file, process, number };
	char control[CMSG_SPACE(sizeof(int))];
	int32_t error = 1;
	struct iovec piece = { &error, sizeof(error) };
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};

	host(SYS_sendto, opener, (long)&request, sizeof(request), 0, 0, 0);
	host(SYS_recvmsg, opener, (long)&message, 0, 0, 0, 0);
	return error;
}

static void make_attempts(void)
{
	static const char *const arguments[] = { "/bin/true", NULL };
	long server;
	int pair[2];
	struct sockaddr_in anywhere = { .sin_family = AF_INET };
	char letter;
	struct iovec here = { &letter, 1 }, there = { (void *)arguments, 1 };

	attempt("alive", 1);
	attempt("open", host(SYS_open, (long)"/etc/hosts", O_RDONLY, 0, 0, 0, 0));
	attempt("openat", host(SYS_openat, AT_FDCWD, (long)"/etc/hosts", O_RDONLY, 0, 0, 0));
	attempt("create", host(SYS_open, (long)"escaped", O_CREAT | O_WRONLY, 0600, 0, 0, 0));
	attempt("unlink", host(SYS_unlink, (long)"kept", 0, 0, 0, 0, 0));
	server = host(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
	attempt("socket", server);
	attempt("bind", host(SYS_bind, server, (long)&anywhere, sizeof(anywhere), 0, 0, 0));
	attempt("listen", host(SYS_listen, server, 1, 0, 0, 0, 0));
	attempt("unix_socket", host(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0, 0));
	attempt("netlink_socket", host(SYS_socket, AF_NETLINK, SOCK_RAW, 0, 0, 0, 0));
	attempt("datagrams", host(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, (long)pair, 0, 0));
	attempt("kill", host(SYS_kill, parent, 0, 0, 0, 0, 0));
	attempt("ptrace", host(SYS_ptrace, PTRACE_CONT, parent, 0, 0, 0, 0));
	attempt("process_vm_readv", host(SYS_process_vm_readv, parent, (long)&here, 1, (long)&there,
					 1, 0));
	attempt("unshare", host(SYS_unshare, CLONE_NEWUTS, 0, 0, 0, 0, 0));
	attempt("shared_memory", host(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1,
				      0));
	attempt("fork", fork_once());
	attempt("execve", host(SYS_execve, (long)"/bin/no", (long)arguments, 0, 0, 0, 0));
	attempt("opener_input", ask(BELL, (int32_t)parent, 0));
	attempt("opener_error", ask(MEMORY, (int32_t)parent, 2));
	attempt("opener_first", ask(MEMORY, 1, 0));
	attempt("opener_unknown", ask(UNKNOWN, 0, 0));
}

/* Takes the place of syscall(3), by which the server calls the host. */
long syscall(long number, ...)
{
	long a[6], result;
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_sendto && a[2] == sizeof(struct request) && opener < 0)
		opener = (int)a[0];
	if (number == SYS_recvmsg && opener >= 0 && (int)a[0] != opener &&
	    !__atomic_exchange_n(&is_done, true, __ATOMIC_SEQ_CST))
		make_attempts();
	result = host(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}
