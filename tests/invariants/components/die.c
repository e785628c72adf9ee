// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel code that is broken, in the way that the parameter "how" says: read, write, copy (by
 * memcpy), jump (to where no code is), panic, bug, kthread (a read in a kernel thread), overflow
 * (of the stack of one) (V1, V10).
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

static char *how = "";
module_param(how, charp, 0);

static int *nowhere;

static noinline int die_by_read(void)
{
	return READ_ONCE(*nowhere);
}

static noinline int die_by_write(void)
{
	WRITE_ONCE(*nowhere, 1);
	return 0;
}

/* The function is named; it makes no frame, so its caller is not. */
static noinline int die_by_copy(void)
{
	static char bytes[4096];
	size_t size = sizeof(bytes);

	OPTIMIZER_HIDE_VAR(size);
	memcpy(bytes, nowhere, size);
	return bytes[0];
}

static noinline int die_by_jump(void)
{
	int (*function)(void) = (void *)nowhere;

	OPTIMIZER_HIDE_VAR(function);
	return function() + 1;
}

static noinline int die_by_panic(void)
{
	panic("the component asked for it");
	return 0;
}

static noinline int die_by_bug(void)
{
	BUG();
	return 0;
}

/* Together more than a stack has (64 KB), and less than would reach the next one (128 KB). */
#define FRAME_BYTES 512
#define FRAMES 190

static noinline int die_by_overflow(int frames)
{
	volatile char frame[FRAME_BYTES];
	int below;

	if (!frames)
		return 0;
	frame[0] = (char)frames;
	frame[FRAME_BYTES - 1] = (char)frames;
	below = die_by_overflow(frames - 1);
	return below + frame[0];
}

static int overflowing(void *unused)
{
	return die_by_overflow(FRAMES);
}

static int faulting(void *unused)
{
	return die_by_read();
}

static int run_in_kthread(int (*function)(void *unused))
{
	struct task_struct *task = kthread_run(function, NULL, "dying");

	if (IS_ERR(task))
		return PTR_ERR(task);
	/* It dies meanwhile, and everything with it. */
	msleep(2000);
	return -EIO;
}

static int __init die_init(void)
{
	if (!strcmp(how, "read"))
		return die_by_read();
	if (!strcmp(how, "write"))
		return die_by_write();
	if (!strcmp(how, "copy"))
		return die_by_copy();
	if (!strcmp(how, "jump"))
		return die_by_jump();
	if (!strcmp(how, "panic"))
		return die_by_panic();
	if (!strcmp(how, "bug"))
		return die_by_bug();
	if (!strcmp(how, "kthread"))
		return run_in_kthread(faulting);
	if (!strcmp(how, "overflow"))
		return run_in_kthread(overflowing);
	return -EINVAL;
}
module_init(die_init);

MODULE_DESCRIPTION("Outboard test: dies");
MODULE_LICENSE("GPL");
