// SPDX-License-Identifier: GPL-2.0-only
/*
 * The leader of the process that local clients are threads of. It is a coroutine, which loads the
 * first components, reports the kernel ready, and then adopts clients (adopt.c). It is not init,
 * which not even halt could kill.
 */
#include <linux/gfp.h>
#include <linux/oom.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <asm/host.h>
#include "adopt.h"
#include "component.h"
#include "deferred.h"
#include "driver.h"
#include "leader.h"
#include "machine.h"
#include "renew.h"
#include "signal.h"
#include "snapshot.h"
#include "space.h"

/* Reports that the kernel can be saved: snapshot.c. */
static void ob_report_savable(void)
{
	ob_secrets_note();
	/* Free pages on this CPU's own lists would be saved as if they were in use. */
	preempt_disable();
	drain_local_pages(NULL);
	preempt_enable();
	WRITE_ONCE(ob_machine.savable, 1);
	ob_host_wake(ob_host, &ob_machine.savable, 1);
}

/* Opens a kernel without snapshots for system calls. snapshot.c opens the others. */
static void ob_report_ready(void)
{
	ob_vcpus_start_later();
	WRITE_ONCE(ob_machine.ready, 1);
	ob_host_wake(ob_host, &ob_machine.ready, 1);
}

/* A child of init that has init's mm. */
int ob_leader_main(void *unused)
{
	/* The programs that clients start are waited for: not as init's children. */
	struct k_sigaction children = { .sa.sa_handler = SIG_DFL };
	sigset_t all;

	ob_machine.leader = current;
	/* Signals to the process go to threads that can take them. */
	sigfillset(&all);
	set_current_blocked(&all);
	ob_signals_ignore();
	do_sigaction(SIGCHLD, &children, NULL);
	current->signal->flags |= SIGNAL_UNKILLABLE;
	current->signal->oom_score_adj = OOM_SCORE_ADJ_MIN;
#ifdef CONFIG_MMU
	current->mm->context.space = &ob_local_space;
#endif
	ob_machine.components_error = ob_components_load(ob_machine.components);
	if (ob_machine.snapshot) {
		ob_drivers_make_spares();
		ob_report_savable();
	} else {
		ob_report_ready();
	}
	for (;;) {
		ob_adoptions_await();
		if (READ_ONCE(ob_machine.renew))
			ob_snapshot_renew();
		ob_adoptions_serve();
	}
}
