// SPDX-License-Identifier: GPL-2.0-only
/* The build wants this file; no assembly of ours needs an offset. */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>
#include <linux/sched.h>

int main(void);
int main(void)
{
	DEFINE(OUTBOARD_TASK_SIZE, sizeof(struct task_struct));
	return 0;
}
