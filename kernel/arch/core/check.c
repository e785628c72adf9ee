// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of the state tables: those of vcpu.h, idle.c and evict.c. Each change of a state comes
 * through here, in a kernel that checks itself (DEBUG=1).
 *
 * The checking thread has the vCPU: it has just taken it, or is about to give it up. So no other
 * thread changes the fields that a check reads. The thread may have no task, so a change that is
 * wrong ends the kernel without Linux's panic().
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include "check.h"
#include "evict.h"
#include "machine.h"
#include "panic.h"
#include "vcpu.h"

static void __noreturn ob_check_failed(const char *object, const char *condition,
				       unsigned long from, unsigned long to, void *by)
{
	char text[256];

	scnprintf(text, sizeof(text), "%s changes from %#lx to %#lx in %pS: not %s", object, from,
		  to, by, condition);
	ob_panic_host(text);
}

/* In a function that checks: has `from`, `to` and `object`. */
#define EXPECT(condition)								\
	do {										\
		if (unlikely(!(condition)))						\
			ob_check_failed(object, #condition, from, to,			\
					__builtin_return_address(0));			\
	} while (0)

/* The names of vcpu.h. */
enum ob_vcpu_name { OFFLINE, HELD, PARKED, MOVED, ARRIVING, INTERRUPT, STOPPED, NAMES };

static const u8 ob_vcpu_rows[NAMES + 1] = {
	/* To HELD again: the carrier could not be made, and Linux tries again. */
	[OFFLINE] = BIT(HELD),
	[HELD] = BIT(HELD) | BIT(PARKED) | BIT(MOVED) | BIT(ARRIVING) | BIT(STOPPED),
	[PARKED] = BIT(HELD) | BIT(INTERRUPT),
	[MOVED] = BIT(HELD) | BIT(INTERRUPT),
	[ARRIVING] = BIT(HELD) | BIT(INTERRUPT),
	[INTERRUPT] = BIT(HELD) | BIT(PARKED) | BIT(MOVED) | BIT(ARRIVING),
};

static enum ob_vcpu_name ob_vcpu_name(unsigned long word)
{
	switch (word) {
	case OB_VCPU_OFFLINE:
		return OFFLINE;
	case OB_VCPU_HELD:
		return HELD;
	case OB_VCPU_INTERRUPT:
		return INTERRUPT;
	case OB_VCPU_STOPPED:
		return STOPPED;
	}
	if (!ob_is_parked(word) || !ob_parked_task(word))
		return NAMES;
	if (word == ob_parked(ob_parked_task(word)))
		return PARKED;
	if (word == ob_moved(ob_parked_task(word)))
		return MOVED;
	return word == ob_arriving(ob_parked_task(word)) ? ARRIVING : NAMES;
}

/* The task on which a vCPU is parked waits for its own thread alone. */
static bool ob_is_parkable(struct ob_vcpu *vcpu, struct task_struct *task)
{
	struct thread_struct *thread = &task->thread;

	return thread->vcpu == vcpu && !thread->coroutine && !thread->stack &&
	       !READ_ONCE(thread->away);
}

/* A client's thread takes the interrupts of a client that is out, and of no other. */
static bool ob_may_interrupt(enum ob_vcpu_name name)
{
	return ob_this_thread->kind == OB_THREAD_SERVICE ||
	       (ob_this_thread->kind == OB_THREAD_CLIENT && name != ARRIVING);
}

void ob_vcpu_check(struct ob_vcpu *vcpu, unsigned long from, unsigned long to)
{
	static const char object[] = "a vCPU's state";
	enum ob_vcpu_name before = ob_vcpu_name(from), after = ob_vcpu_name(to);
	unsigned long parked = ob_is_parked(from) ? from : to;
	bool taken = after == HELD || after == INTERRUPT;
	u64 bound = READ_ONCE(vcpu->bound_thread);

	EXPECT(ob_vcpu_rows[before] & BIT(after));
	EXPECT(READ_ONCE(vcpu->state) == (taken ? to : from));
	EXPECT(!READ_ONCE(vcpu->watcher_baton) && !READ_ONCE(vcpu->kicked_baton));
	if (ob_is_parked(parked))
		EXPECT(ob_is_parkable(vcpu, ob_parked_task(parked)));
	if (before == PARKED && after == HELD)
		EXPECT(vcpu == ob_this_vcpu() && current == ob_parked_task(from));
	if (before == HELD && after == PARKED)
		EXPECT(vcpu == ob_this_vcpu() && current == ob_parked_task(to));
	if (before == INTERRUPT && after == HELD)
		EXPECT(vcpu == ob_this_vcpu() && READ_ONCE(current->thread.away));
	if (after == INTERRUPT)
		EXPECT(ob_may_interrupt(before));
	if (after == STOPPED)
		EXPECT(READ_ONCE(ob_machine.halting));
	/* In an interrupt the word names the parked task's thread. None may have claimed it yet. */
	if (before == INTERRUPT ? after != HELD : after == INTERRUPT)
		EXPECT(!bound || bound == ob_parked_task(parked)->thread.host_thread);
	else if (before == PARKED || before == INTERRUPT || (before == HELD && after != HELD))
		EXPECT(bound == ob_this_thread->self);
}

static const u8 ob_idle_rows[] = {
	[OB_IDLE_BUSY] = BIT(OB_IDLE_CARRIER) | BIT(OB_IDLE_LENT),
	[OB_IDLE_CARRIER] = BIT(OB_IDLE_BUSY),
	[OB_IDLE_LENT] = BIT(OB_IDLE_CARRIER) | BIT(OB_IDLE_KICKED),
	[OB_IDLE_KICKED] = BIT(OB_IDLE_BUSY),
};

void ob_idle_check(struct ob_vcpu *vcpu, enum ob_idle from, enum ob_idle to)
{
	static const char object[] = "the watch of a vCPU";

	EXPECT(ob_idle_rows[from] & BIT(to));
	/* The carrier may have been passed the vCPU already. */
	if (from == OB_IDLE_LENT && to == OB_IDLE_CARRIER)
		return;
	EXPECT(READ_ONCE(vcpu->state) == OB_VCPU_HELD);
	EXPECT(!READ_ONCE(vcpu->watcher_baton) && !READ_ONCE(vcpu->kicked_baton));
	EXPECT(!READ_ONCE(vcpu->bound_thread));
	EXPECT(vcpu->carrier.to_run == idle_task(vcpu->id));
	if (to == OB_IDLE_LENT)
		EXPECT(ob_this_thread->kind == OB_THREAD_CLIENT);
}

#define WANTED(away) (BIT((away) | OB_AWAY_WANTED))

static const u32 ob_away_rows[2 * OB_AWAY_WANTED] = {
	[0] = BIT(OB_AWAY_OUT) | BIT(OB_AWAY_ARRIVING),
	[OB_AWAY_OUT] = BIT(0) | BIT(OB_AWAY_WORKING) | WANTED(OB_AWAY_OUT),
	[OB_AWAY_ARRIVING] = BIT(0) | WANTED(OB_AWAY_ARRIVING),
	[OB_AWAY_WORKING] = BIT(0) | WANTED(OB_AWAY_WORKING) | BIT(OB_AWAY_GONE),
	[OB_AWAY_OUT | OB_AWAY_WANTED] = BIT(0),
	[OB_AWAY_ARRIVING | OB_AWAY_WANTED] = BIT(0),
	[OB_AWAY_WORKING | OB_AWAY_WANTED] = BIT(0) | BIT(OB_AWAY_GONE),
};

void ob_away_check(u32 from, u32 to)
{
	static const char object[] = "a task's word `away`";

	EXPECT(from == to || (from < ARRAY_SIZE(ob_away_rows) && ob_away_rows[from] & BIT(to)));
}
