// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host kills, stops and continues the processes in which programs run. A program ends with its
 * own process, and all others go on. program_killed_test VCPUS IMAGE PROGRAM: an image with ext4,
 * and program_inside.c.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "programs.h"
#include "stubs.h"

#define DISK "/disk"
#define PROGRAMS 8

static unsigned int random_below(unsigned int end)
{
	return (unsigned int)rand() % end;
}

static void kill_some(void)
{
	pid_t stubs[STUBS_MOST];
	int status, count;

	for (int i = 0; i < PROGRAMS; i++)
		start(i % 3 ? "write" : "endless");
	for (int i = PROGRAMS; i > 1; i--) {
		usleep(random_below(20000));
		count = children_of(zygote(), stubs, STUBS_MOST);
		CHECK_EQUAL(count, i);
		CHECK(!kill(stubs[random_below((unsigned int)count)], SIGKILL));
		OK(ob_sys_wait4(-1, &status, 0, NULL));
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		/* No other one has ended. */
		CHECK_EQUAL(OK(ob_sys_wait4(-1, &status, WNOHANG, NULL)), 0);
	}
	CHECK_EQUAL(wait_for(start("nothing")), 0);
	OK(ob_sys_kill(-1, SIGKILL));
	OK(ob_sys_wait4(-1, &status, 0, NULL));
}

/* Until there are new signs of life. */
static void await_beat(int output)
{
	char text[4096];

	OK(ob_sys_fcntl(output, F_SETFL, O_NONBLOCK));
	while (ob_sys_read(output, text, sizeof(text)) > 0)
		;
	OK(ob_sys_fcntl(output, F_SETFL, 0));
	CHECK(OK(ob_sys_read(output, text, sizeof(text))) > 0);
}

/* A stub that is stopped from outside, while it runs or sleeps. */
static void stop_and_continue(int output)
{
	int program = start("beat");
	pid_t stubs[STUBS_MOST];

	await_beat(output);
	for (int i = 0; i < 5; i++) {
		int count = children_of(zygote(), stubs, STUBS_MOST);

		for (int stub = 0; stub < count; stub++)
			CHECK(!kill(stubs[stub], SIGSTOP));
		usleep(100000 + random_below(100000));
		for (int stub = 0; stub < count; stub++)
			CHECK(!kill(stubs[stub], SIGCONT));
		await_beat(output);
	}
	OK(ob_sys_kill(program, SIGKILL));
	CHECK(WIFSIGNALED(wait_for(program)));
}

/* Without the zygote no stub lives, and there is no new one. */
static void kill_zygote(void)
{
	int status;

	start("write");
	CHECK(!kill(zygote(), SIGKILL));
	while (ob_sys_wait4(-1, &status, 0, NULL) > 0)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_EQUAL(errno, ECHILD);
	status = wait_for(start("nothing"));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv)
{
	int output;

	CHECK(argc == 4);
	srand((unsigned int)getpid());
	stubs_adopt();
	client_boot((unsigned int)atoi(argv[1]));
	copy_in(argv[3], INSIDE);
	client_mount(argv[2], "ext4", DISK);
	OK(ob_sys_chdir(DISK));
	output = make_descriptors();
	kill_some();
	stop_and_continue(output);
	kill_zygote();
	CHECK_EQUAL(ob_halt(), 0);
	/* Stubs end with the zygote, and nobody but this process reaps them then. */
	CHECK(reap_stubs() > 0);
	return 0;
}
