// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's side of a virtqueue, without a kernel: virtqueue_test ROUNDS
 *
 * A driver as simple as possible uses it first: chains, indirect chains, both ways to ask for
 * notifications and interrupts, an index that wraps. Then rings of random bytes, of which parts are
 * right: every piece that the queue gives out must be in RAM, and nothing may loop.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "virtqueue.h"

#define RAM_BYTES (64 << 10)
#define SIZE 8
#define DESCRIPTORS 0x1000
#define AVAILABLE 0x2000
#define USED 0x3000
#define TABLE 0x4000
#define DATA 0x8000

static _Alignas(4096) char ram[RAM_BYTES];
static struct ob_virtqueue_memory memory = {
	.count = 1, .parts = { { OB_VIRTIO_BASE, RAM_BYTES, ram } },
};

static struct vring_desc *const descriptors = (void *)(ram + DESCRIPTORS);
static struct vring_avail *const available = (void *)(ram + AVAILABLE);
static struct vring_used *const used = (void *)(ram + USED);
static struct vring_desc *const table = (void *)(ram + TABLE);

static struct ob_virtqueue fresh(void)
{
	struct ob_virtio_queue from = {
		.descriptors = OB_VIRTIO_BASE + DESCRIPTORS,
		.available = OB_VIRTIO_BASE + AVAILABLE,
		.used = OB_VIRTIO_BASE + USED,
		.size = SIZE,
		.interrupt = 17,
	};
	struct ob_virtqueue queue;

	memset(ram, 0, sizeof(ram));
	CHECK_EQUAL(ob_virtqueue_set(&queue, &memory, &from), 0);
	return queue;
}

static void offer(uint16_t head)
{
	available->ring[available->idx % SIZE] = head;
	__atomic_store_n(&available->idx, (uint16_t)(available->idx + 1), __ATOMIC_RELEASE);
}

static struct vring_desc describe(uint64_t place, uint32_t length, uint16_t flags, uint16_t next)
{
	return (struct vring_desc){ OB_VIRTIO_BASE + place, length, flags, next };
}

static void test_chains(void)
{
	struct ob_virtqueue queue = fresh();
	struct ob_virtqueue_chain chain;

	CHECK(!ob_virtqueue_take(&queue, &chain));
	descriptors[3] = describe(DATA, 100, VRING_DESC_F_NEXT, 5);
	descriptors[5] = describe(DATA + 200, 50, VRING_DESC_F_WRITE, 0);
	offer(3);
	table[0] = describe(DATA + 300, 7, VRING_DESC_F_NEXT, 1);
	table[1] = describe(DATA + 400, 9, 0, 0);
	descriptors[1] = describe(TABLE, 2 * sizeof(*table), VRING_DESC_F_INDIRECT, 0);
	offer(1);

	CHECK(ob_virtqueue_take(&queue, &chain));
	CHECK_EQUAL(chain.head, 3);
	CHECK_EQUAL(chain.count, 2);
	CHECK_EQUAL(chain.readable, 1);
	CHECK(chain.pieces[0].iov_base == ram + DATA && chain.pieces[0].iov_len == 100);
	CHECK(chain.pieces[1].iov_base == ram + DATA + 200 && chain.pieces[1].iov_len == 50);
	CHECK(ob_virtqueue_take(&queue, &chain));
	CHECK_EQUAL(chain.head, 1);
	CHECK_EQUAL(chain.count, 2);
	CHECK_EQUAL(chain.readable, 2);
	CHECK(chain.pieces[1].iov_base == ram + DATA + 400 && chain.pieces[1].iov_len == 9);
	CHECK(!ob_virtqueue_take(&queue, &chain));

	ob_virtqueue_return(&queue, 3, 50);
	ob_virtqueue_return(&queue, 1, 0);
	CHECK_EQUAL(used->idx, 0);
	ob_virtqueue_publish(&queue);
	CHECK_EQUAL(used->idx, 2);
	CHECK(used->ring[0].id == 3 && used->ring[0].len == 50 && used->ring[1].id == 1);
}

/* Sends one buffer through the queue. Returns whether the driver gets an interrupt. */
static bool pass_one(struct ob_virtqueue *queue)
{
	struct ob_virtqueue_chain chain;

	descriptors[0] = describe(DATA, 1, 0, 0);
	offer(0);
	CHECK(ob_virtqueue_take(queue, &chain));
	ob_virtqueue_return(queue, chain.head, 0);
	ob_virtqueue_publish(queue);
	return ob_virtqueue_wants_interrupt(queue);
}

static void test_interrupts(void)
{
	struct ob_virtqueue queue = fresh();

	CHECK(!ob_virtqueue_wants_interrupt(&queue));
	CHECK(pass_one(&queue));
	CHECK(!ob_virtqueue_wants_interrupt(&queue));
	available->flags = VRING_AVAIL_F_NO_INTERRUPT;
	CHECK(!pass_one(&queue));

	/* By indices, over the wrap of 16 bits: the driver wants each 100th. */
	queue = fresh();
	queue.event_index = true;
	for (int i = 0; i < 200000; i++) {
		uint16_t *event = &available->ring[SIZE];
		bool wanted = i % 100 == 99;

		*event = (uint16_t)(wanted ? i : i % 2 ? i + 50 : i - 1);
		CHECK_EQUAL(pass_one(&queue), wanted);
	}
}

static void test_notifications(void)
{
	struct ob_virtqueue queue = fresh();
	struct ob_virtqueue_chain chain;
	uint16_t *event = (uint16_t *)&used->ring[SIZE];

	queue.event_index = true;
	CHECK(!ob_virtqueue_ask_notify(&queue));
	CHECK_EQUAL(*event, 0);
	descriptors[0] = describe(DATA, 1, 0, 0);
	offer(0);
	CHECK(ob_virtqueue_ask_notify(&queue));
	CHECK(ob_virtqueue_take(&queue, &chain));
	CHECK(!ob_virtqueue_ask_notify(&queue));
	CHECK_EQUAL(*event, 1);
}

static void test_refused(void)
{
	const struct ob_virtio_queue right = {
		OB_VIRTIO_BASE + DESCRIPTORS, OB_VIRTIO_BASE + AVAILABLE, OB_VIRTIO_BASE + USED,
		SIZE, 0,
	};
	struct ob_virtqueue queue;
	struct ob_virtio_queue wrong;

#define REFUSED(member, value)							\
	do {									\
		wrong = right;							\
		wrong.member = (value);						\
		CHECK(ob_virtqueue_set(&queue, &memory, &wrong) < 0);		\
		CHECK(!queue.memory);						\
	} while (0)
	REFUSED(size, 0);
	REFUSED(size, 6);
	REFUSED(size, 65536);
	REFUSED(size, 8192);
	REFUSED(descriptors, DESCRIPTORS);
	REFUSED(descriptors, OB_VIRTIO_BASE + RAM_BYTES - 64);
	REFUSED(descriptors, OB_VIRTIO_BASE + DESCRIPTORS + 8);
	REFUSED(available, OB_VIRTIO_BASE + RAM_BYTES - 20);
	REFUSED(available, ~0ull - 1);
	REFUSED(used, OB_VIRTIO_BASE + RAM_BYTES - 68);
	REFUSED(used, OB_VIRTIO_BASE + USED + 2);
#undef REFUSED
}

/* A buffer whose number is just beyond the table, where a right descriptor lies. */
static void test_beyond(void)
{
	struct ob_virtqueue queue = fresh();
	struct ob_virtqueue_chain chain;

	descriptors[SIZE] = describe(DATA, 1, 0, 0);
	offer(SIZE);
	CHECK(!ob_virtqueue_take(&queue, &chain));
	CHECK(queue.broken);
	queue = fresh();
	descriptors[SIZE] = describe(DATA, 1, 0, 0);
	descriptors[0] = describe(DATA, 1, VRING_DESC_F_NEXT, SIZE);
	offer(0);
	CHECK(!ob_virtqueue_take(&queue, &chain));
	CHECK(queue.broken);
}

/* Memory in two parts, whose addresses are in another order than their bytes. */
static void test_parts(void)
{
	static struct ob_virtqueue_memory halves = {
		.count = 2,
		.parts = {
			{ 4ull << 30, RAM_BYTES / 2, ram },
			{ 1ull << 30, RAM_BYTES / 2, ram + RAM_BYTES / 2 },
		},
	};
	const struct ob_virtio_queue from = {
		(4ull << 30) + DESCRIPTORS, (4ull << 30) + AVAILABLE, (4ull << 30) + USED, SIZE, 0,
	};
	struct ob_virtqueue queue;
	struct ob_virtqueue_chain chain;

	memset(ram, 0, sizeof(ram));
	CHECK_EQUAL(ob_virtqueue_set(&queue, &halves, &from), 0);
	descriptors[0] = (struct vring_desc){ (1ull << 30) + 5, 7, 0, 0 };
	descriptors[1] = (struct vring_desc){ (1ull << 30) + RAM_BYTES / 2 - 1, 2, 0, 0 };
	offer(0);
	offer(1);
	CHECK(ob_virtqueue_take(&queue, &chain));
	CHECK(chain.pieces[0].iov_base == ram + RAM_BYTES / 2 + 5);
	CHECK(!ob_virtqueue_take(&queue, &chain));
	CHECK(queue.broken);
}

static void check_pieces(const struct ob_virtqueue_chain *chain)
{
	CHECK(chain->count > 0 && chain->count <= OB_VIRTQUEUE_PIECES);
	CHECK(chain->readable >= 0 && chain->readable <= chain->count);
	for (int i = 0; i < chain->count; i++) {
		char *start = chain->pieces[i].iov_base;

		CHECK(start >= ram && chain->pieces[i].iov_len <= RAM_BYTES &&
		      start + chain->pieces[i].iov_len <= ram + RAM_BYTES);
	}
}

/* Descriptors that are mostly right lead further than random bytes. */
static void make_random(struct vring_desc *to, int count)
{
	for (int i = 0; i < count; i++) {
		int kind = rand() % 16;

		to[i] = describe((uint64_t)(rand() % (RAM_BYTES + 64)), (uint32_t)(rand() % 512),
				 (uint16_t)(rand() % 8), (uint16_t)(rand() % (SIZE + 1)));
		if (kind == 0)
			to[i].addr = (uint64_t)rand() << 33 | (uint64_t)rand();
		else if (kind == 1)
			to[i].len = (uint32_t)rand() * 2u;
		else if (kind < 6)
			to[i] = describe(kind < 4 ? TABLE : DESCRIPTORS, 16 * (1 + rand() % 8u),
					 VRING_DESC_F_INDIRECT, 0);
	}
}

static void test_random(long rounds)
{
	long taken = 0, broken = 0;

	for (long round = 0; round < rounds; round++) {
		struct ob_virtqueue queue = fresh();
		struct ob_virtqueue_chain chain;

		make_random(descriptors, SIZE);
		make_random(table, SIZE);
		for (int i = 0; i < SIZE; i++)
			available->ring[i] = (uint16_t)(rand() % (SIZE + (rand() % 8 == 0)));
		available->idx = (uint16_t)(rand() % 16 ? rand() % (SIZE + 1) : rand());
		while (ob_virtqueue_take(&queue, &chain)) {
			check_pieces(&chain);
			ob_virtqueue_return(&queue, chain.head, 1);
			ob_virtqueue_publish(&queue);
			taken++;
		}
		broken += queue.broken;
		CHECK(!queue.broken || !ob_virtqueue_ask_notify(&queue));
	}
	/* Neither kind of round may be missing. */
	CHECK(taken > rounds / 10 && broken > rounds / 10 && broken < rounds);
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 2);
	test_chains();
	test_interrupts();
	test_notifications();
	test_refused();
	test_beyond();
	test_parts();
	test_random(atol(arguments[1]));
	return 0;
}
