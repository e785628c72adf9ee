// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands for kernel code that an image has taken over: a "file system" whose mount makes system
 * calls of the host, and logs the result of each. tests/program/test_sandbox.py mounts it, with
 * the sandbox and without.
 */
#include <linux/fs.h>
#include <linux/module.h>

/* The host's numbers: those of x86-64. */
enum {
	HOST_OPEN = 2, HOST_KILL = 62, HOST_SOCKET = 41, HOST_FORK = 57, HOST_EXECVE = 59,
	HOST_UNLINK = 87, HOST_PTRACE = 101, HOST_PROCESS_VM_READV = 310, HOST_OPENAT = 257,
	HOST_UNSHARE = 272, HOST_MEMFD_CREATE = 319, HOST_IOCTL = 16, HOST_GETPPID = 110,
	HOST_MMAP = 9, HOST_IO_URING_SETUP = 425, HOST_OPENAT2 = 437, HOST_CLONE3 = 435,
	HOST_FCNTL = 72, HOST_EXIT = 60, HOST_BIND = 49, HOST_LISTEN = 50, HOST_CONNECT = 42,
	HOST_MKNODAT = 259, HOST_PRLIMIT64 = 302,
};

/* Any process may read it, and no command of ours has a reason to. */
static char *victim = "/etc/hosts";
module_param(victim, charp, 0);

static long host(long number, long a, long b, long c, long d)
{
	register long r10 asm("r10") = d;
	register long r8 asm("r8") = -1;
	register long r9 asm("r9") = 0;
	long result;

	asm volatile("syscall" : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
}

static void attempt(const char *what, long result)
{
	pr_warn("escape: %s %ld\n", what, result);
}

/* A child that came to be ends at once. */
static long fork(void)
{
	long child = host(HOST_FORK, 0, 0, 0, 0);

	if (child == 0)
		host(HOST_EXIT, 0, 0, 0, 0);
	return child;
}

/* A node of /dev/null, which any host has, opened where root may make one. */
static long open_node(void)
{
	long made = host(HOST_MKNODAT, -100, (long)"node", 0020600, 0x103);

	return made < 0 ? made : host(HOST_OPEN, (long)"node", 2, 0, 0);
}

static struct dentry *escape_mount(struct file_system_type *type, int flags, const char *device,
				   void *data)
{
	static const char *const arguments[] = { "/bin/true", NULL };
	static const unsigned char anywhere[16] = { 2 /* AF_INET */ };
	static const unsigned char port_9[16] = { 2, 0, 0, 9, 127, 0, 0, 1 };
	long server = host(HOST_SOCKET, 2, 1, 0, 0);
	unsigned long limits[2];
	char letter = 'x';

	attempt("alive", host(39, 0, 0, 0, 0) > 0);
	attempt("open", host(HOST_OPEN, (long)victim, 0, 0, 0));
	attempt("openat", host(HOST_OPENAT, -100, (long)victim, 0, 0));
	attempt("create", host(HOST_OPEN, (long)"escaped", 0101 /* O_CREAT | O_WRONLY */, 0600, 0));
	attempt("unlink", host(HOST_UNLINK, (long)"kept", 0, 0, 0));
	attempt("socket", server);
	attempt("bind", host(HOST_BIND, server, (long)anywhere, sizeof(anywhere), 0));
	attempt("listen", host(HOST_LISTEN, server, 1, 0, 0));
	attempt("connect", host(HOST_CONNECT, server, (long)port_9, sizeof(port_9), 0));
	attempt("udp_socket", host(HOST_SOCKET, 2, 2, 0, 0));
	attempt("raw_socket", host(HOST_SOCKET, 2, 3, 1 /* IPPROTO_ICMP */, 0));
	attempt("netlink_socket", host(HOST_SOCKET, 16, 3, 0, 0));
	attempt("unix_socket", host(HOST_SOCKET, 1, 1, 0, 0));
	attempt("kill", host(HOST_KILL, 1, 0, 0, 0));
	attempt("kill_all", host(HOST_KILL, -1, 0, 0, 0));
	attempt("signal_of_events", host(HOST_FCNTL, 0, 10 /* F_SETSIG */, 9, 0));
	attempt("receiver_of_events", host(HOST_FCNTL, 0, 8 /* F_SETOWN */, 1, 0));
	attempt("ptrace", host(HOST_PTRACE, 16 /* PTRACE_ATTACH */, 1, 0, 0));
	attempt("process_vm_readv", host(HOST_PROCESS_VM_READV, 1, 0, 0, 0));
	attempt("limits_of_others",
		host(HOST_PRLIMIT64, host(HOST_GETPPID, 0, 0, 0, 0), 7, 0, (long)limits));
	attempt("open_node", open_node());
	attempt("unshare", host(HOST_UNSHARE, 0x10000000 /* CLONE_NEWUSER */, 0, 0, 0));
	attempt("memfd_create", host(HOST_MEMFD_CREATE, (long)"x", 0, 0, 0));
	attempt("io_uring_setup", host(HOST_IO_URING_SETUP, 1, 0, 0, 0));
	attempt("shared_memory",
		host(HOST_MMAP, 0, 4096, 3, 0x21 /* MAP_SHARED | MAP_ANONYMOUS */));
	attempt("type_on_terminal", host(HOST_IOCTL, 0, 0x5412 /* TIOCSTI */, (long)&letter, 0));
	attempt("clone3", host(HOST_CLONE3, 0, 0, 0, 0));
	attempt("fork", fork());
	attempt("execve", host(HOST_EXECVE, (long)"/nowhere/at/all", (long)arguments, 0, 0));
	return ERR_PTR(-EINVAL);
}

static struct file_system_type escape_type = {
	.owner = THIS_MODULE,
	.name = "escape",
	.fs_flags = FS_REQUIRES_DEV,
	.mount = escape_mount,
	.kill_sb = kill_anon_super,
};

static int __init escape_init(void)
{
	return register_filesystem(&escape_type);
}

static void __exit escape_exit(void)
{
	unregister_filesystem(&escape_type);
}

module_init(escape_init);
module_exit(escape_exit);
MODULE_DESCRIPTION("Test: tries to get out of the sandbox");
MODULE_LICENSE("GPL");
