// SPDX-License-Identifier: GPL-2.0-only
/*
 * Idle vCPUs: which thread watches one, and how clients' threads lend themselves for that.
 *
 * Linux's idle task is a coroutine, one for each vCPU. When the task has nothing to do, its thread
 * leaves it (arch_cpu_idle()). The coroutine then rests, no thread holds the vCPU, and one thread
 * watches the vCPU: the thread sleeps on its own baton until a thread raises an interrupt. Two
 * words of struct ob_vcpu name that thread, while `state` stays HELD:
 *
 *   name           watcher_baton  kicked_baton  what it means
 *   BUSY           NULL           NULL          a thread runs on the vCPU, or comes for it, or the
 *                                               vCPU is parked
 *   IDLE-CARRIER   the carrier's  NULL          the carrier watches
 *   IDLE-LENT      a client's     NULL          a client's thread watches: it is lent
 *   KICKED         NULL           a client's    an interrupt waits for the lent thread
 *
 *   event                              from          to            by
 *   the idle task rests                BUSY          IDLE-CARRIER  ob_pass_or_idle()
 *   - on a lent thread                 BUSY          IDLE-LENT     ob_idle_watch()
 *   a bit is set in `pending`          IDLE-CARRIER  BUSY          ob_idle_end() passes the baton
 *                                      IDLE-LENT     KICKED        ob_idle_end() kicks the thread
 *   a client's thread wants the vCPU   IDLE-CARRIER  BUSY          ob_idle_take(): it is lent now
 *   a snapshot is taken                IDLE-CARRIER  BUSY          ob_take_first_vcpu()
 *   - and is over                      BUSY          IDLE-CARRIER  ob_snapshot_take()
 *   the lent thread is called back     IDLE-LENT     IDLE-CARRIER  ob_idle_watch()
 *   the lent thread comes              KICKED        BUSY          ob_idle_watch()
 *   - and was called back meanwhile    KICKED        BUSY          ob_idle_watch() passes the
 *                                                                  carrier's baton
 *   the lent thread stays away 1 ms    KICKED        BUSY          ob_watch_kicked() passes the
 *                                                                  carrier's baton
 *
 * A vCPU leaves IDLE-CARRIER, IDLE-LENT or KICKED only by an atomic exchange of the word that names
 * the watcher. So one thread wins. Between IDLE-LENT and KICKED both words are NULL: the lent
 * thread waits for the bit KICKED.
 *
 *   carry      run a vCPU's coroutines (carrier.c). The carrier does; so does a lent thread.
 *   lend       a client's thread carries an idle vCPU while its own task waits.
 *   kick       ask a lent thread to carry on. The thread itself learns of it only by the bit KICKED
 *              in its baton.
 *   call back  pass a lent thread its own baton, because its task was switched to elsewhere.
 *   give up    the thread's task has left the vCPU for good, or was evicted from it.
 *
 * Waking the carrier costs more than most of what an idle vCPU has to do. Hence lending. These
 * threads lend themselves: one whose task waits or does not exist yet (ob_lend()), one whose task
 * has ended (ob_give_up()), and one that starts a kernel from a snapshot (ob_carry_without_task()).
 *
 *   L1  A lent thread carries only short work: another vCPU may switch to its task meanwhile.
 *   L2  A lent thread sleeps on its own stack: the program's signal handlers run there.
 *   L3  A lent thread ignores our signal (V6): the handler could end on another thread, with the
 *       program's signal mask.
 *   L4  A lent thread may be stopped, or in a signal handler of the program. If it does not come
 *       when it is kicked, the carrier comes instead. The thread that kicks may be stopped, too. If
 *       that happens in ob_idle_end(), after the exchange and before `kicked_baton` or the
 *       carrier's baton is set, no thread comes until it goes on.
 *
 * Two words of struct ob_carrier go with this. A thread writes `pass_to` before it returns to its
 * own stack (or in ob_carry_without_task()), and reads it there. `to_run` is written before the
 * carrier gets the vCPU, and read by the carrier.
 */
#include <linux/cpu.h>
#include <linux/sched.h>
#include <asm/host.h>
#include "baton.h"
#include "carrier.h"
#include "check.h"
#include "coroutine.h"
#include "delay.h"
#include "idle.h"
#include "machine.h"
#include "parked.h"
#include "service.h"
#include "spin.h"
#include "switch.h"
#include "time.h"
#include "vcpu.h"

/*
 * Ends the idling of a vCPU, unless another thread has ended it. Returns the baton on which to wake
 * the watcher; NULL if the watcher does not sleep.
 */
u32 *ob_idle_end(struct ob_vcpu *vcpu)
{
	u32 *baton = xchg(&vcpu->watcher_baton, NULL);

	if (!baton)
		return NULL;
	if (baton == &vcpu->carrier.baton) {
		ob_idle_check(vcpu, OB_IDLE_CARRIER, OB_IDLE_BUSY);
		return ob_baton_set(baton, OB_BATON_PASSED);
	}
	ob_idle_check(vcpu, OB_IDLE_LENT, OB_IDLE_KICKED);
	WRITE_ONCE(vcpu->kicks, vcpu->kicks + 1);
	/* Before `kicked_baton`: a reader that is wrong notifies the service thread in vain. */
	WRITE_ONCE(vcpu->kicked_while_awake, true);
	WRITE_ONCE(vcpu->kicked_baton, baton);
	baton = ob_baton_set(baton, OB_BATON_KICKED);
	if (baton)
		WRITE_ONCE(vcpu->kicked_while_awake, false);
	return baton;
}

/*
 * As ob_baton_await(), by a thread that may watch the vCPU. A watcher is the vCPU's timer as well.
 * Else the host would have to wake the service thread, only to have that wake the watcher. A
 * carrier that gets the watch while it sleeps does not learn the deadline: then the service thread
 * is the timer, 50 us late.
 */
void ob_idle_await(struct ob_vcpu *vcpu, u32 *baton, u32 bits)
{
	u64 deadline, now;
	u32 seen;

	if (READ_ONCE(*baton) & bits)
		return;
	ob_spin_for_bits(baton, bits);
	while (!((seen = READ_ONCE(*baton)) & bits)) {
		deadline = 0;
		if (READ_ONCE(vcpu->watcher_baton) == baton)
			deadline = READ_ONCE(vcpu->service.deadline);
		now = deadline ? ob_host_clock_monotonic(ob_host) : 0;
		if (!deadline) {
			ob_baton_doze(baton, seen, OB_FOREVER);
		} else if (now < deadline) {
			ob_baton_doze(baton, seen, deadline - now);
		} else {
			/* No thread sleeps on the baton: raising must not wake one. */
			__atomic_fetch_and(baton, ~OB_BATON_AWAITED, __ATOMIC_SEQ_CST);
			ob_timer_expire(vcpu, now);
		}
	}
}

/*
 * The calling thread leaves the vCPU idle. The owner of the baton watches the vCPU from now on; the
 * owner may be the calling thread. If a bit is pending already, this ends the idling at once.
 */
void ob_idle_begin(struct ob_vcpu *vcpu, u32 *baton)
{
	vcpu->carrier.to_run = idle_task(vcpu->id);
	/* The calling thread may be anywhere when the next interrupt is late: no signal for it. */
	WRITE_ONCE(vcpu->bound_thread, 0);
	ob_delay_point();
	ob_idle_check(vcpu, OB_IDLE_BUSY,
		      baton == &vcpu->carrier.baton ? OB_IDLE_CARRIER : OB_IDLE_LENT);
	xchg(&vcpu->watcher_baton, baton);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_wake(ob_idle_end(vcpu));
}

/*
 * The lent thread and the service thread both want a KICKED vCPU. Returns whether the caller got
 * it.
 */
static bool ob_kicked_take(struct ob_vcpu *vcpu, u32 *baton)
{
	bool taken = cmpxchg(&vcpu->kicked_baton, baton, NULL) == baton;

	if (taken)
		ob_idle_check(vcpu, OB_IDLE_KICKED, OB_IDLE_BUSY);
	return taken;
}

/*
 * The calling thread is lent and watches the idle vCPU. Returns true if it was kicked: it carries
 * on. Returns false if it was called back: the vCPU is the carrier's. Blocks.
 */
static bool ob_idle_watch(struct ob_vcpu *vcpu, u32 *baton)
{
	if (READ_ONCE(ob_machine.stopping))
		return false;
	ob_service_needed(vcpu);
	ob_idle_begin(vcpu, baton);
	ob_idle_await(vcpu, baton, OB_BATON_PASSED | OB_BATON_KICKED);
	ob_delay_point();
	if (cmpxchg(&vcpu->watcher_baton, baton, &vcpu->carrier.baton) == baton) {
		ob_idle_check(vcpu, OB_IDLE_LENT, OB_IDLE_CARRIER);
		return false;
	}
	/* The thread that took it from `watcher_baton` sets this bit. */
	ob_baton_take(baton, OB_BATON_KICKED);
	if (!ob_kicked_take(vcpu, baton))
		return false;
	if (!(READ_ONCE(*baton) & OB_BATON_PASSED))
		return true;
	ob_baton_pass(&vcpu->carrier.baton);
	return false;
}

/* Takes an idle vCPU from its carrier. After success the calling thread must carry the vCPU. */
bool ob_idle_take(struct ob_vcpu *vcpu)
{
	u32 *baton = &vcpu->carrier.baton;
	bool taken = READ_ONCE(vcpu->watcher_baton) == baton &&
		     cmpxchg(&vcpu->watcher_baton, baton, NULL) == baton;

	if (taken)
		ob_idle_check(vcpu, OB_IDLE_CARRIER, OB_IDLE_BUSY);
	return taken;
}

/*
 * By the service thread: calls the carrier if a lent thread does not come (L4). Returns when to
 * check again; OB_FOREVER if the vCPU is not KICKED.
 */
u64 ob_watch_kicked(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;
	u32 kicks = READ_ONCE(vcpu->kicks), *baton = READ_ONCE(vcpu->kicked_baton);

	if (!baton) {
		service->kicked_since = 0;
		return OB_FOREVER;
	}
	if (!service->kicked_since || service->kicks_seen != kicks) {
		service->kicks_seen = kicks;
		service->kicked_since = now;
	}
	if (now - service->kicked_since < OB_KICK_OLD)
		return service->kicked_since + OB_KICK_OLD;
	service->kicked_since = 0;
	if (ob_kicked_take(vcpu, baton))
		ob_baton_pass(&vcpu->carrier.baton);
	return OB_FOREVER;
}

/*
 * The calling client's thread holds a vCPU that is about to idle, and its own task waits. The
 * thread carries the vCPU until its task is switched to, or until the vCPU has longer work (L1).
 * Returns after the switch to its task: true if this thread made the switch, and holds the vCPU;
 * false if another thread made the switch and passed `baton`. Blocks.
 */
bool ob_lend(struct ob_vcpu *vcpu, u32 *baton)
{
	struct task_struct *next;

	do {
		next = ob_carry(vcpu, idle_task(vcpu->id), true);
		if (next && ob_pass_to(vcpu, next, baton))
			return true;
	} while (!next && ob_idle_watch(vcpu, baton));
	ob_baton_wait(baton);
	return false;
}

/* The calling thread has no task. It gives the vCPU to `next`; NULL: to the carrier, to watch. */
void ob_pass_or_idle(struct ob_vcpu *vcpu, struct task_struct *next)
{
	ob_unbind();
	if (next)
		ob_pass_to(vcpu, next, NULL);
	else
		ob_idle_begin(vcpu, &vcpu->carrier.baton);
}

/* The calling thread's task has left the vCPU, which goes to `pass_to`. */
void ob_give_up(struct ob_vcpu *vcpu)
{
	struct task_struct *next = vcpu->carrier.pass_to;

	if (is_idle_task(next) && ob_this_thread->kind == OB_THREAD_CLIENT)
		next = ob_carry(vcpu, next, true);
	ob_pass_or_idle(vcpu, next);
}

/*
 * As ob_give_up(), by a thread that has evicted another thread's task and now waits for `baton`,
 * its own. Returns as ob_lend(). Blocks.
 */
bool ob_give_up_and_wait(struct ob_vcpu *vcpu, u32 *baton)
{
	struct task_struct *next = vcpu->carrier.pass_to;

	if (is_idle_task(next))
		return ob_lend(vcpu, baton);
	if (ob_pass_to(vcpu, next, baton))
		return true;
	ob_baton_wait(baton);
	return false;
}

/*
 * The calling thread has no task. It carries a vCPU that no other thread holds, until the vCPU
 * idles or has longer work (L1), which goes to the carrier.
 */
void ob_carry_without_task(struct ob_vcpu *vcpu)
{
	ob_this_thread->irqs_off = 1;
	ob_this_thread->self = ob_host_thread_self(ob_host);
	vcpu->carrier.pass_to = idle_task(vcpu->id);
	ob_give_up(vcpu);
	ob_this_thread->irqs_off = 0;
}

/*
 * As ob_raise(), by a thread that waits until the interrupt has its own task run. The thread takes
 * the interrupt itself if the carrier watches the vCPU, or if the vCPU is parked on the task of a
 * client that is out in host code. Returns as ob_lend(). Blocks.
 */
bool ob_raise_and_wait(struct ob_vcpu *vcpu, u32 bits, u32 *baton)
{
	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	ob_delay_point();
	if (ob_idle_take(vcpu))
		return ob_lend(vcpu, baton);
	ob_service_needed(vcpu);
	if (ob_evict_by_client(vcpu))
		return ob_give_up_and_wait(vcpu, baton);
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
	ob_baton_wait(baton);
	return false;
}

/*
 * The thread leaves the idle coroutine. It rests until a bit is pending and a thread carries it
 * again.
 */
void arch_cpu_idle(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	if (!READ_ONCE(vcpu->pending)) {
		vcpu->carrier.pass_to = NULL;
		ob_coroutine_switch(&current->thread.coroutine, vcpu->carrier.context);
	}
	raw_local_irq_enable();
	raw_local_irq_disable();
}
