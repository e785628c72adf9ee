// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs (ob_spawn): an ordinary binary runs inside of the kernel, and does there what it does on
 * any Linux. program_test VCPUS PROGRAM [FILE ...]: the program is program_inside.c. FILEs are what
 * it is linked with, each at the same path inside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs.h"

/* With so little memory that a program can use it up. */
static void boot(unsigned int vcpus)
{
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = vcpus,
		.memory = 96ull << 20,
		.log_level = OB_LOG_DEFAULT,
	};

	CHECK_EQUAL(ob_boot(&config), 0);
}

static void check_errors(void)
{
	const char *const none[] = { NULL }, *const bad[] = { (const char *)8, NULL };
	char *border = client_border();

	CHECK_EQUAL(ob_spawn("/nowhere", none, none), -ENOENT);
	CHECK_EQUAL(ob_spawn("/proc/version", none, none), -EACCES);
	OK(ob_sys_close((int)OK(ob_sys_open("/bin/empty", O_CREAT | O_WRONLY, 0755))));
	CHECK_EQUAL(ob_spawn("/bin/empty", none, none), -ENOEXEC);
	CHECK_EQUAL(ob_spawn("/init", none, none), -ENOEXEC);
	CHECK_EQUAL(ob_spawn(INSIDE, bad, none), -EFAULT);
	CHECK_EQUAL(ob_spawn(INSIDE, none, (const char *const *)(border - 4)), -EFAULT);
	CHECK_EQUAL(ob_spawn(NULL, none, none), -EINVAL);
	/* They leave no child. */
	CHECK(ob_sys_wait4(-1, NULL, 0, NULL) == -1 && errno == ECHILD);
}

static void check_ends(int output)
{
	char text[16];
	int status, pid;

	run("hello", output);
	CHECK_EQUAL(OK(ob_sys_read(output, text, sizeof(text))), 6);
	CHECK(!memcmp(text, "hello\n", 6));
	CHECK_EQUAL(WEXITSTATUS(wait_for(start("fail"))), 7);
	pid = start("endless");
	CHECK_EQUAL(OK(ob_sys_wait4(pid, &status, WNOHANG, NULL)), 0);
	OK(ob_sys_kill(pid, SIGKILL));
	status = wait_for(pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv)
{
	static const char *const cases[] = {
		"copy_on_write", "unmapping", "faults", "stopping", "signals", "threads", "execute",
		"script", "hunger",
	};
	int output;

	CHECK(argc > 2);
	boot((unsigned int)atoi(argv[1]));
	for (int i = 2; i < argc; i++)
		copy_in(argv[i], i == 2 ? INSIDE : argv[i]);
	output = make_descriptors();
	check_errors();
	check_ends(output);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run(cases[i], output);
	/* A halt ends programs that compute. */
	for (int i = 0; i < 3; i++)
		start("endless");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
