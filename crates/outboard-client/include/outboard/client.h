/* SPDX-License-Identifier: MIT */
/*
 * liboutboard-client: system calls of a kernel in another process, "outboard server".
 *
 * A program connects once, and is a process of that kernel from then on, with descriptors, a
 * working directory and rights of its own there. Any thread may call at any time: it is a thread
 * of the process from its first call to its end. At exit(), the process of the kernel ends with
 * the same status; any other end of this process, and of its connection, ends it as SIGKILL does.
 * Numbers are those of x86-64, and structures have the layout that this host's C library uses for
 * them.
 *
 * <outboard/client_calls.h> has ob_sys_NAME() for each system call. A function that returns int
 * returns 0 or a number, or -errno. The library has no code of Linux, and the MIT licence.
 */
#ifndef OUTBOARD_CLIENT_H
#define OUTBOARD_CLIENT_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Connects to the server at a URL: "unix:PATH", "tcp:HOST:PORT,token=FILE" or
 * "tls:HOST:PORT,certificates=DIR". NULL: the process that has called ob_client_execve(), if this
 * program was started so; else the server at the URL in the environment's OUTBOARD_SERVER. Then
 * call this before other threads use the environment: the
 * session of ob_client_execve(), OUTBOARD_SESSION, is removed from it. Blocks for 10 s at most in
 * each step. Returns 0, -EISCONN (there is a connection), -EINVAL (no URL, or no such kind),
 * -ECONNREFUSED (also: the server refuses this user, or has too many clients), -EPROTO (another
 * version), -ETIMEDOUT, or the error of a host's call.
 */
int ob_client_connect(const char *url);

/*
 * The text of the calling thread's last failure of a function that returns int, or of a call before
 * the first ob_client_connect(); "" without one. Valid until the thread's next failure.
 */
const char *ob_client_error(void);

/* Ends the process of the kernel. Calls under way, and later ones, fail with ENOTCONN. */
void ob_client_disconnect(void);

/*
 * The answer to a lost connection, and with it all descriptors in the kernel. Calls under way
 * fail with ENOTCONN in any case. At first it is OB_CLIENT_NEVER; children of ob_client_fork() have
 * their parent's.
 */
enum ob_client_reconnect {
	/* later calls fail with ENOTCONN, until ob_client_connect() */
	OB_CLIENT_NEVER = 0,
	/* the next call connects again, as a new process, and tries for so many seconds */
	OB_CLIENT_SECONDS = 1,
	/* the next call connects again, and waits for a server as long as there is none */
	OB_CLIENT_FOREVER = 2,
	/* this process ends with status 1 at once */
	OB_CLIENT_DIE = 3
};

/* Returns 0, -ENOTCONN (before the first ob_client_connect()), -EINVAL (no such policy). */
int ob_client_set_reconnect(int policy, unsigned int seconds);

/*
 * One system call: up to six arguments follow the number (SYS_* of <sys/syscall.h>, OB_SYS_* of
 * <outboard/syscall.h>), each a pointer or a long: cast what is shorter. Returns the kernel's
 * result: -errno for an error. Besides the kernel's errors there are -ENOTCONN (no connection; also
 * in a child of fork()), -ESRCH (the process was killed in the kernel), -EDEADLK (a signal handler
 * has interrupted a call of its own thread), -EOPNOTSUPP, -EINVAL and -ENOSYS (the call does not
 * travel, or not with these arguments; as mmap, which would need this program's memory). A signal
 * handler of this program ends a call that blocks with -EINTR, whatever its SA_RESTART.
 */
long ob_client_syscall(long number, ...);

/*
 * fork(), here and in the kernel: the child has copies of the descriptors there. Returns 0 in the
 * child, and in the parent the child's number in the kernel, for wait4() and kill() there. The
 * child's number on the host, for waitpid(), goes to *host, if that is not NULL. The child is
 * connected; if that has failed, ob_client_error() has the reason there, and calls fail with
 * ENOTCONN. Returns -errno of fork() or of the kernel, and there is no child. After a fork() of the
 * host alone, the child has no connection.
 */
int ob_client_fork(pid_t *host);

/*
 * execve(), here and in the kernel: close-on-exec descriptors are closed there, and other threads
 * end. The new program is the same process of the kernel when it calls ob_client_connect(NULL),
 * which it has to do within 10 s; until then, its process waits. Returns only for an error. If
 * the host's execve() itself has failed (not for a file that is missing or not executable), what
 * the kernel has closed is gone.
 */
int ob_client_execve(const char *path, char *const argv[], char *const envp[]);

#ifdef __cplusplus
}
#endif
#endif
