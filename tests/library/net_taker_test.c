// SPDX-License-Identifier: GPL-2.0-only
/* The taker of frames (taker.h): its table is checked at each change. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "taker.h"

/* A turn of each row, in one order. */
static void test_rows(void)
{
	struct ob_taker taker = { .state = TAKER_THREAD };

	ob_taker_leave(&taker, TAKER_POLLERS);
	CHECK_EQUAL(ob_taker_look(&taker, false), TAKEN_FROM_POLLERS);
	ob_taker_leave(&taker, TAKER_POLLERS);
	CHECK_EQUAL(ob_taker_take(&taker, false), NOT_TAKEN);
	CHECK_EQUAL(ob_taker_take(&taker, true), TAKEN_FROM_POLLERS);
	ob_taker_leave(&taker, TAKER_NOBODY);
	CHECK_EQUAL(ob_taker_look(&taker, true), NOT_TAKEN);
	CHECK_EQUAL(ob_taker_look(&taker, false), TAKEN_FROM_NOBODY);
	CHECK_EQUAL(ob_taker_take(&taker, true), NOT_TAKEN);
	ob_taker_leave(&taker, TAKER_NOBODY);
	CHECK_EQUAL(ob_taker_take(&taker, false), TAKEN_FROM_NOBODY);
}

/* A thread leaves that is not the taker, or in favour of itself: the process ends. */
static void test_wrong(uint32_t from, enum ob_taker_state to)
{
	struct ob_taker taker = { .state = from };
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		ob_taker_leave(&taker, to);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
	test_rows();
	test_wrong(TAKER_NOBODY, TAKER_POLLERS);
	test_wrong(TAKER_POLLERS, TAKER_NOBODY);
	test_wrong(TAKER_THREAD, TAKER_LOOKS);
	test_wrong(TAKER_LOOKS, TAKER_THREAD);
	test_wrong(TAKER_LOOKS + 1, TAKER_NOBODY);
	return 0;
}
