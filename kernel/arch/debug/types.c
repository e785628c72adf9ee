// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's types for debuggers: compiled with debug information, linked
 * into nothing, and installed beside lib/outboard-gdb.py, which reads it. The kernel itself
 * is compiled without, for it would be ten times as large.
 */
#include <linux/kernfs.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include "../core/adopt.h"
#include "../core/machine.h"
#include "../core/vcpu.h"
#include <printk_ringbuffer.h>
