// SPDX-License-Identifier: GPL-2.0-only
/* Delay points: delay.h. With or without a vCPU, in any context: only the host is used. */
#include <linux/atomic.h>
#include <linux/types.h>
#include <asm/host.h>
#include "delay.h"

/* One point in OB_DELAY_ONE_IN waits. If more did, the tests would take too long. */
#define OB_DELAY_ONE_IN 48
#define OB_DELAY_SLEEP 200000	/* nanoseconds at most */

static u64 ob_delay_draw(void)
{
	static atomic64_t state = ATOMIC64_INIT(0);
	u64 value = atomic64_add_return(0x9e3779b97f4a7c15, &state);

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return value ^ (value >> 31);
}

void ob_delay_point(void)
{
	u64 chosen = ob_delay_draw(), i;
	u32 never = 0;

	if (chosen % OB_DELAY_ONE_IN)
		return;
	chosen /= OB_DELAY_ONE_IN;
	switch (chosen % 4) {
	case 0:
		ob_host_thread_yield(ob_host);
		break;
	case 1:
		ob_host_wait(ob_host, &never, 0, chosen / 4 % OB_DELAY_SLEEP);
		break;
	default:
		for (i = 0; i < chosen / 4 % 2000; i++)
			asm volatile("pause" ::: "memory");
	}
}
