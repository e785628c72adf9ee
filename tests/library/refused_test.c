// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that a library cannot do return errors: no new processes, no other program, no end of a
 * host thread from inside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "client.h"

#define EXPECT_REFUSED(call)                      \
	do {                                      \
		errno = 0;                        \
		CHECK_EQUAL(call, -1);            \
		CHECK_EQUAL(errno, EOPNOTSUPP);   \
		CHECK(ob_sys_getppid() >= 0); \
	} while (0)

int main(void)
{
	static const char *const none[] = { NULL };
	char stack[64];

	client_boot(1);
	OK(ob_sys_close(OK(ob_sys_openat(AT_FDCWD, "/program", O_CREAT | O_WRONLY, 0755))));
	EXPECT_REFUSED(ob_sys_fork());
	EXPECT_REFUSED(ob_sys_vfork());
	EXPECT_REFUSED(ob_sys_clone(SIGCHLD, NULL, NULL, NULL, 0));
	EXPECT_REFUSED(
		ob_sys_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
			     stack, NULL, NULL, 0));
	EXPECT_REFUSED(ob_sys_clone3(NULL, 0));
	EXPECT_REFUSED(ob_sys_execve("/program", none, none));
	EXPECT_REFUSED(ob_sys_execveat(AT_FDCWD, "/program", none, none, 0));
	EXPECT_REFUSED(ob_sys_exit(3));
	EXPECT_REFUSED(ob_sys_exit_group(3));
	CHECK_EQUAL(ob_syscall(OB_SYS_arch_prctl, 0x1002, 0), -ENOSYS);
	CHECK_EQUAL(ob_syscall(OB_SYS_iopl, 3), -ENOSYS);
	CHECK_EQUAL(ob_syscall(OB_SYS_rt_sigreturn), -ENOSYS);
	/* The host's own is the right one: query, and private expedited. */
	CHECK_EQUAL(ob_syscall(OB_SYS_membarrier, 0, 0, 0), -ENOSYS);
	CHECK_EQUAL(ob_syscall(OB_SYS_membarrier, 8, 0, 0), -ENOSYS);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
