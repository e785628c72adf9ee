// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compares the parity of RAID-5 and RAID-6 with a computation byte by byte: parity of whole stripes
 * and of parts, and every pair of lost disks. A timer's interrupt computes parity as well, while a
 * task computes some, and wakes a thread that must not run before the task is done. After each
 * operation, the upper halves of the vector registers must be clear. Loading fails at the first
 * mistake, which the log describes.
 *
 * The log also has the speed of each operation.
 */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/fpu/api.h>

#define DISKS_MOST 16		/* with both parities */
#define BIG_DISKS 6
#define BIG_BYTES 0x100000
#define SOURCES_MOST 4		/* of xor_blocks() */
#define SPEED_DISKS 8
#define SPEED_BATCH 100
#define SPEED_NS (100 * NSEC_PER_MSEC)
#define TIMER_NS (100 * NSEC_PER_USEC)
#define INTERRUPTED_TIMES 5
/* On a busy host the timer may be late for long. */
#define INTERRUPTED_MOST_NS (60 * NSEC_PER_SEC)

/* Disks of one array; the last two have the parities. */
struct array {
	u8 *memory;
	unsigned int disks;
	size_t bytes;
	void *at[DISKS_MOST];
};

static struct rnd_state random_state;

static bool array_make(struct array *array, unsigned int disks, size_t bytes)
{
	unsigned int i;

	array->disks = disks;
	array->bytes = bytes;
	array->memory = vmalloc(disks * bytes);
	if (!array->memory)
		return false;
	for (i = 0; i < disks; i++)
		array->at[i] = array->memory + i * bytes;
	prandom_bytes_state(&random_state, array->memory, disks * bytes);
	return true;
}

static u8 twice(u8 byte)
{
	return byte << 1 ^ (byte & 0x80 ? 0x1d : 0);
}

/* Whether both parities fit the data: P is the sum, and Q the sum of 2^disk times the data. */
static bool array_is_right(const struct array *array)
{
	unsigned int data = array->disks - 2, i;
	size_t at;

	for (at = 0; at < array->bytes; at++) {
		u8 p = 0, q = 0;

		for (i = data; i--; ) {
			u8 byte = ((u8 *)array->at[i])[at];

			p ^= byte;
			q = twice(q) ^ byte;
		}
		if (p != ((u8 *)array->at[data])[at] || q != ((u8 *)array->at[data + 1])[at])
			return false;
	}
	return true;
}

static int wrong(const char *what, const struct array *array, unsigned int a, unsigned int b)
{
	pr_err("parity_test: %s is wrong: %u disks, %zu bytes, %u and %u\n", what, array->disks,
	       array->bytes, a, b);
	return -EBADMSG;
}

static void generate(struct array *array)
{
	raid6_call.gen_syndrome(array->disks, array->bytes, array->at);
}

/* Changes the data of some disks, and the parities by what was there and what is there now. */
static int check_parts(struct array *array)
{
	unsigned int first, last, i;

	for (first = 0; first < array->disks - 2; first++)
		for (last = first; last < array->disks - 2; last++) {
			raid6_call.xor_syndrome(array->disks, first, last, array->bytes, array->at);
			for (i = first; i <= last; i++)
				prandom_bytes_state(&random_state, array->at[i], array->bytes);
			raid6_call.xor_syndrome(array->disks, first, last, array->bytes, array->at);
			if (!array_is_right(array))
				return wrong("xor_syndrome", array, first, last);
		}
	return 0;
}

/* Recovers into memory of its own, since the functions use that of a lost disk. */
static int check_pair(struct array *array, struct array *lost, unsigned int a, unsigned int b)
{
	void *at[2] = { array->at[a], array->at[b] };
	bool equal;

	prandom_bytes_state(&random_state, lost->memory, 2 * array->bytes);
	array->at[a] = lost->at[0];
	array->at[b] = lost->at[1];
	if (b < array->disks - 2)
		raid6_2data_recov(array->disks, array->bytes, a, b, array->at);
	else
		raid6_datap_recov(array->disks, array->bytes, a, array->at);
	equal = !memcmp(at[0], lost->at[0], array->bytes) &&
		!memcmp(at[1], lost->at[1], array->bytes);
	array->at[a] = at[0];
	array->at[b] = at[1];
	return equal ? 0 : wrong("recovery", array, a, b);
}

/* Two disks with data, or one of them and P. */
static int check_recovery(struct array *array, struct array *lost)
{
	unsigned int a, b;
	int error = 0;

	for (a = 0; a < array->disks - 2 && !error; a++)
		for (b = a + 1; b < array->disks - 1 && !error; b++)
			error = check_pair(array, lost, a, b);
	return error;
}

static int check_array(unsigned int disks, size_t bytes)
{
	struct array array = {}, lost = {};
	int error = -ENOMEM;

	if (array_make(&array, disks, bytes) && array_make(&lost, 2, bytes)) {
		generate(&array);
		error = array_is_right(&array) ? 0 : wrong("gen_syndrome", &array, 0, 0);
		error = error ?: check_parts(&array);
		error = error ?: check_recovery(&array, &lost);
	}
	vfree(array.memory);
	vfree(lost.memory);
	return error;
}

static int check_xor(size_t bytes)
{
	unsigned int sources, i;
	struct array array;
	size_t at;

	if (!array_make(&array, SOURCES_MOST + 2, bytes))
		return -ENOMEM;
	for (sources = 1; sources <= SOURCES_MOST; sources++) {
		u8 *result = array.at[SOURCES_MOST], *before = array.at[SOURCES_MOST + 1];

		memcpy(before, result, bytes);
		xor_blocks(sources, bytes, result, array.at);
		for (at = 0; at < bytes; at++) {
			u8 sum = before[at];

			for (i = 0; i < sources; i++)
				sum ^= ((u8 *)array.at[i])[at];
			if (sum == result[at])
				continue;
			vfree(array.memory);
			return wrong("xor_blocks", &array, sources, at);
		}
	}
	vfree(array.memory);
	return 0;
}

/* A timer whose interrupt computes parity in the middle of a task's computation. */
static struct {
	struct hrtimer timer;
	struct array array;
	struct task_struct *task;
	bool computing;
	unsigned int inside;
	/* Has real-time priority on the task's vCPU. */
	struct task_struct *rival;
	unsigned int rival_ran, rival_too_early;
} interrupt;

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	if (READ_ONCE(interrupt.computing) && current == interrupt.task) {
		interrupt.inside++;
		wake_up_process(interrupt.rival);
	}
	generate(&interrupt.array);
	xor_blocks(SOURCES_MOST, interrupt.array.bytes, interrupt.array.at[SOURCES_MOST],
		   interrupt.array.at);
	hrtimer_forward_now(timer, ns_to_ktime(TIMER_NS));
	return HRTIMER_RESTART;
}

static int rival_main(void *unused)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		schedule();
		interrupt.rival_too_early += READ_ONCE(interrupt.computing);
		WRITE_ONCE(interrupt.rival_ran, interrupt.rival_ran + 1);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Binds the calling task to its vCPU, and makes the rival there. */
static int rival_start(void)
{
	unsigned int cpu = raw_smp_processor_id();
	int error = set_cpus_allowed_ptr(current, cpumask_of(cpu));

	if (error)
		return error;
	interrupt.rival = kthread_create(rival_main, NULL, "rival");
	if (IS_ERR(interrupt.rival))
		return PTR_ERR(interrupt.rival);
	kthread_bind(interrupt.rival, cpu);
	sched_set_fifo(interrupt.rival);
	wake_up_process(interrupt.rival);
	return 0;
}

/* Computes the same again and again, until interrupts came in the middle and the rival ran. */
static int compute_interrupted(struct array *array, void *expected)
{
	void *parities = array->at[array->disks - 2];
	ktime_t end = ktime_add_ns(ktime_get(), INTERRUPTED_MOST_NS);

	generate(array);
	if (!array_is_right(array))
		return wrong("gen_syndrome", array, 0, 0);
	memcpy(expected, parities, 2 * array->bytes);
	hrtimer_start(&interrupt.timer, ns_to_ktime(TIMER_NS), HRTIMER_MODE_REL);
	while ((interrupt.inside < INTERRUPTED_TIMES || !READ_ONCE(interrupt.rival_ran)) &&
	       ktime_before(ktime_get(), end)) {
		memset(parities, 0, 2 * array->bytes);
		WRITE_ONCE(interrupt.computing, true);
		generate(array);
		WRITE_ONCE(interrupt.computing, false);
		if (memcmp(parities, expected, 2 * array->bytes))
			return wrong("gen_syndrome, interrupted,", array, interrupt.inside, 0);
		cond_resched();
	}
	pr_info("parity_test: %u interrupts in the middle, a thread ran %u times, %u too early\n",
		interrupt.inside, interrupt.rival_ran, interrupt.rival_too_early);
	return 0;
}

static int check_interrupted(void)
{
	struct array array = {}, expected = {};
	int error = rival_start();

	if (error)
		return error;
	error = -ENOMEM;
	interrupt.task = current;
	hrtimer_init(&interrupt.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	interrupt.timer.function = on_timer;
	if (array_make(&array, BIG_DISKS, BIG_BYTES) && array_make(&expected, 2, BIG_BYTES) &&
	    array_make(&interrupt.array, BIG_DISKS, PAGE_SIZE)) {
		error = compute_interrupted(&array, expected.memory);
		hrtimer_cancel(&interrupt.timer);
	}
	kthread_stop(interrupt.rival);
	vfree(array.memory);
	vfree(expected.memory);
	vfree(interrupt.array.memory);
	return error;
}

static void do_generate(struct array *array)
{
	generate(array);
}

static void do_parts(struct array *array)
{
	raid6_call.xor_syndrome(array->disks, 0, array->disks - 3, array->bytes, array->at);
}

static void do_recover(struct array *array)
{
	raid6_2data_recov(array->disks, array->bytes, 0, 1, array->at);
}

static void do_xor(struct array *array)
{
	xor_blocks(SOURCES_MOST, array->bytes, array->at[SOURCES_MOST], array->at);
}

/* Has the upper halves of three registers hold ones. Code with SSE instructions keeps them. */
static void fill_upper_halves(void)
{
	asm volatile("vcmptrueps %ymm0, %ymm0, %ymm0\n\t"
		     "vcmptrueps %ymm8, %ymm8, %ymm8\n\t"
		     "vcmptrueps %ymm15, %ymm15, %ymm15");
}

static bool upper_halves_are_clear(void)
{
	static u64 registers[3][4];
	unsigned int i;

	asm volatile("vmovups %%ymm0, %0\n\t"
		     "vmovups %%ymm8, %1\n\t"
		     "vmovups %%ymm15, %2"
		     : "=m" (registers[0]), "=m" (registers[1]), "=m" (registers[2]));
	for (i = 0; i < ARRAY_SIZE(registers); i++)
		if (registers[i][2] || registers[i][3])
			return false;
	return true;
}

static int check_upper_halves(void)
{
	static void (*const operations[])(struct array *array) = {
		do_generate, do_parts, do_recover, do_xor
	};
	struct array array;
	unsigned int i;
	int error = 0;

	if (!boot_cpu_has(X86_FEATURE_AVX))
		return 0;
	if (!array_make(&array, SPEED_DISKS, PAGE_SIZE))
		return -ENOMEM;
	fill_upper_halves();
	if (upper_halves_are_clear())
		error = wrong("the test itself", &array, 0, 0);
	for (i = 0; i < ARRAY_SIZE(operations) && !error; i++) {
		fill_upper_halves();
		operations[i](&array);
		if (!upper_halves_are_clear())
			error = wrong("the upper half of a register", &array, i, 0);
	}
	vfree(array.memory);
	if (!error)
		pr_info("parity_test: upper halves are clear\n");
	return error;
}

/*
 * Megabytes of data per second, in the fastest batch: of all disks without the parities, or of what
 * is summed up.
 */
static int show_speed(const char *name, void (*operation)(struct array *), unsigned int data)
{
	u64 start, now = ktime_get_ns(), end = now + SPEED_NS, best = U64_MAX;
	struct array array;
	unsigned int i;

	if (!array_make(&array, SPEED_DISKS, PAGE_SIZE))
		return -ENOMEM;
	generate(&array);
	while (now < end) {
		start = ktime_get_ns();
		for (i = 0; i < SPEED_BATCH; i++)
			operation(&array);
		now = ktime_get_ns();
		best = min(best, now - start);
	}
	pr_info("parity_test: %s: %llu MB/s\n", name,
		div64_u64((u64)SPEED_BATCH * data * PAGE_SIZE * 1000, best));
	vfree(array.memory);
	return 0;
}

static int show_speeds(void)
{
	return show_speed("gen_syndrome", do_generate, SPEED_DISKS - 2) ?:
	       show_speed("xor_syndrome", do_parts, SPEED_DISKS - 2) ?:
	       show_speed("recovery of two", do_recover, SPEED_DISKS - 2) ?:
	       show_speed("xor_blocks", do_xor, SOURCES_MOST);
}

static int __init parity_test_init(void)
{
	static const size_t sizes[] = { 512, 1024, PAGE_SIZE };
	unsigned int disks, i;
	int error = 0;

	prandom_seed_state(&random_state, 42);
	for (i = 0; i < ARRAY_SIZE(sizes) && !error; i++) {
		for (disks = 4; disks <= DISKS_MOST && !error; disks++)
			error = check_array(disks, sizes[i]);
		error = error ?: check_xor(sizes[i]);
	}
	if (!error)
		pr_info("parity_test: all parities are right\n");
	error = error ?: check_interrupted();
	error = error ?: check_upper_halves();
	return error ?: show_speeds();
}
module_init(parity_test_init);

static void __exit parity_test_exit(void)
{
}
module_exit(parity_test_exit);

MODULE_DESCRIPTION("Parity of RAID-5 and RAID-6 against a computation byte by byte");
MODULE_LICENSE("GPL");
