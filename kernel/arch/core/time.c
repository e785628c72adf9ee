// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks. Our monotonic clock is the host's minus an offset. Each vCPU's timer is its service
 * thread, or the thread that watches the idle vCPU (idle.c).
 */
#include <linux/clockchips.h>
#include <linux/clocksource.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/syscalls.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/workqueue.h>
#include <asm/host.h>
#include "delay.h"
#include "machine.h"
#include "service.h"
#include "time.h"
#include "vcpu.h"
#include "vdso.h"

/* In nanoseconds. A kernel from a snapshot goes on from the time at which it was saved. */
u64 ob_clock(void)
{
	return ob_host_clock_monotonic(ob_host) - ob_machine.clock_offset;
}

static u64 ob_clock_read(struct clocksource *source)
{
	return ob_clock();
}

/* A cycle is a nanosecond; the shift leaves room to steer. */
static struct clocksource ob_clocksource = {
	.name = "outboard",
	.rating = 499,
	.read = ob_clock_read,
	.mask = CLOCKSOURCE_MASK(64),
	.mult = 1 << 24,
	.shift = 24,
	.flags = CLOCK_SOURCE_IS_CONTINUOUS | CLOCK_SOURCE_VALID_FOR_HRES,
};

/* From the start: a later change of the clock source would stop all vCPUs. */
struct clocksource * __init clocksource_default_clock(void)
{
	return &ob_clocksource;
}

unsigned long long notrace sched_clock(void)
{
	return ob_clock() - ob_machine.boot_time;
}

void read_persistent_clock64(struct timespec64 *time)
{
	*time = ns_to_timespec64(ob_host_clock_realtime(ob_host));
}

/*
 * Files get their times from the host's coarse clock, as on the host's own file systems. So the
 * times that a file server sets are in order with those of its host: the coarse clock of this
 * kernel may be a tick of 10 ms behind. Once a client sets or steers this kernel's clock, files get
 * their times from that.
 *
 * Dodge ktime_get_coarse_real_ts64: files get their times from the host's coarse clock.
 * Dodge do_settimeofday64, do_adjtimex: once a client sets or steers the clock, files get their
 * times from that.
 */
static bool ob_clock_is_own;
static DEFINE_MUTEX(ob_clock_lock);

/* The program has set or steered the clock. */
static void ob_clock_own(void)
{
	WRITE_ONCE(ob_clock_is_own, true);
	ob_wall_clock_show();
}

void __real_ktime_get_coarse_real_ts64(struct timespec64 *time);
void __wrap_ktime_get_coarse_real_ts64(struct timespec64 *time);

void __wrap_ktime_get_coarse_real_ts64(struct timespec64 *time)
{
	if (READ_ONCE(ob_clock_is_own))
		__real_ktime_get_coarse_real_ts64(time);
	else
		*time = ns_to_timespec64(ob_host_clock_realtime_coarse(ob_host));
}

int __real_do_settimeofday64(const struct timespec64 *time);
int __wrap_do_settimeofday64(const struct timespec64 *time);

int __wrap_do_settimeofday64(const struct timespec64 *time)
{
	int error;

	guard(mutex)(&ob_clock_lock);
	error = __real_do_settimeofday64(time);
	if (!error)
		ob_clock_own();
	return error;
}

int __real_do_adjtimex(struct __kernel_timex *change);
int __wrap_do_adjtimex(struct __kernel_timex *change);

/* Whether the change makes the clock differ from the host's, at once or with time. */
static bool ob_clock_is_steered(unsigned int modes)
{
	if (modes & ADJ_ADJTIME && modes & ADJ_OFFSET_READONLY)
		return false;
	return modes & (ADJ_SETOFFSET | ADJ_OFFSET | ADJ_FREQUENCY | ADJ_TICK);
}

int __wrap_do_adjtimex(struct __kernel_timex *change)
{
	bool steers = ob_clock_is_steered(change->modes);
	int result;

	guard(mutex)(&ob_clock_lock);
	result = __real_do_adjtimex(change);
	if (steers && result >= 0)
		ob_clock_own();
	return result;
}

void ob_renew_wall_clock(void)
{
	struct timespec64 now = ns_to_timespec64(ob_host_clock_realtime(ob_host));

	__real_do_settimeofday64(&now);
}

/*
 * This clock goes on at the pace of the host's monotonic one. So it does not learn that the host's
 * wall clock was set, or that the host slept. It is compared with that when a client asks for the
 * time, and now and then after a timer interrupt. Nothing wakes an idle kernel for that.
 */

/* Between two comparisons: for clients, and after timer interrupts. In nanoseconds. */
#define OB_COMPARE_FOR_CLIENTS (NSEC_PER_SEC / HZ)
#define OB_COMPARE (20ULL * NSEC_PER_SEC)

static u64 ob_wall_clock_compared;	/* when, of our clock */

void ob_wall_clock_show(void)
{
	ob_vdso_set_compared(READ_ONCE(ob_wall_clock_compared) + OB_COMPARE_FOR_CLIENTS,
			     READ_ONCE(ob_clock_is_own));
}

static bool ob_wall_clock_differs(void)
{
	u64 before = ktime_get_real_ns(), host = ob_host_clock_realtime(ob_host);

	return host + TICK_NSEC < before || host > ktime_get_real_ns() + TICK_NSEC;
}

/* A clock that a client has set is not looked at any more. */
static void ob_wall_clock_compare(void)
{
	guard(mutex)(&ob_clock_lock);
	WRITE_ONCE(ob_wall_clock_compared, ob_clock());
	if (!ob_clock_is_own && ob_wall_clock_differs())
		ob_renew_wall_clock();
	ob_wall_clock_show();
}

static bool ob_wall_clock_is_due(u64 pause)
{
	return !READ_ONCE(ob_clock_is_own) &&
	       ob_clock() - READ_ONCE(ob_wall_clock_compared) >= pause;
}

static void ob_wall_clock_work_run(struct work_struct *work)
{
	ob_wall_clock_compare();
}
static DECLARE_WORK(ob_wall_clock_work, ob_wall_clock_work_run);

void ob_wall_clock_watch(void)
{
	if (system_state == SYSTEM_RUNNING && ob_wall_clock_is_due(OB_COMPARE))
		schedule_work(&ob_wall_clock_work);
}

static void ob_wall_clock_follow(void)
{
	if (ob_wall_clock_is_due(OB_COMPARE_FOR_CLIENTS))
		ob_wall_clock_compare();
}

long ob_sys_clock_gettime(clockid_t clock, struct __kernel_timespec __user *time)
{
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)
		ob_wall_clock_follow();
	return sys_clock_gettime(clock, time);
}

long ob_sys_gettimeofday(struct __kernel_old_timeval __user *time, struct timezone __user *zone)
{
	ob_wall_clock_follow();
	return sys_gettimeofday(time, zone);
}

long ob_sys_time(__kernel_old_time_t __user *time)
{
	ob_wall_clock_follow();
	return sys_time(time);
}

/* Notifies the service thread only if it would sleep too long. */
static int ob_timer_set(unsigned long delta, struct clock_event_device *clock)
{
	struct ob_vcpu *vcpu = container_of(clock, struct ob_vcpu, clock);
	u64 deadline = ob_host_clock_monotonic(ob_host) + delta;

	WRITE_ONCE(vcpu->service.deadline, deadline);
	virt_mb();
	ob_delay_point();
	if (deadline < READ_ONCE(vcpu->service.sleeps_until))
		ob_service_notify(vcpu);
	return 0;
}

/*
 * Raises the timer interrupt if it is due. Any thread. A debugger or a signal handler may stop a
 * client's thread in here. The deadline stays until the interrupt is raised, so the service thread
 * raises it then; but see L4 in idle.c. A second interrupt does no harm.
 */
void ob_timer_expire(struct ob_vcpu *vcpu, u64 now)
{
	u64 deadline = READ_ONCE(vcpu->service.deadline);

	if (!deadline || now < deadline)
		return;
	ob_raise(vcpu, OB_PENDING_TIMER);
	ob_delay_point();
	/* Unless the interrupt has set a new deadline already. */
	cmpxchg(&vcpu->service.deadline, deadline, 0);
}

static int ob_timer_stop(struct clock_event_device *clock)
{
	WRITE_ONCE(container_of(clock, struct ob_vcpu, clock)->service.deadline, 0);
	return 0;
}

/* On the vCPU whose timer it is. */
void ob_timer_start(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	struct clock_event_device *clock = &vcpu->clock;

	clock->name = "outboard";
	clock->features = CLOCK_EVT_FEAT_ONESHOT;
	clock->rating = 400;
	clock->cpumask = cpumask_of(vcpu->id);
	clock->set_next_event = ob_timer_set;
	clock->set_state_shutdown = ob_timer_stop;
	clockevents_config_and_register(clock, NSEC_PER_SEC, 1000, LONG_MAX);
}

void __init time_init(void)
{
	lpj_fine = NSEC_PER_SEC / HZ;
	ob_wall_clock_compared = ob_clock();
	__clocksource_register(&ob_clocksource);
	ob_timer_start();
}

/* A loop is a nanosecond. */
void __delay(unsigned long loops)
{
	u64 end = ob_host_clock_monotonic(ob_host) + loops;

	while (ob_host_clock_monotonic(ob_host) < end)
		cpu_relax();
}
EXPORT_SYMBOL(__delay);

void __udelay(unsigned long microseconds)
{
	__delay(microseconds * NSEC_PER_USEC);
}
EXPORT_SYMBOL(__udelay);

void __ndelay(unsigned long nanoseconds)
{
	__delay(nanoseconds);
}
EXPORT_SYMBOL(__ndelay);

/* Constant delays come in units of 2^-32 seconds: asm-generic/delay.h. */
void __const_udelay(unsigned long units)
{
	__delay((units * NSEC_PER_SEC) >> 32);
}
EXPORT_SYMBOL(__const_udelay);
