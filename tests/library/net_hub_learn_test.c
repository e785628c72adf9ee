// SPDX-License-Identifier: GPL-2.0-only
/* The addresses that a hub has learnt: found, renewed, moved, forgotten, and too old. */
#include "check.h"
#include "hub.h"

#define OLDEST 5	/* of age: hub_learn.c */

static struct ob_hub hub;
static const unsigned char first[6] = { 2, 0, 0, 0, 0, 1 }, second[6] = { 2, 0, 0, 0, 0, 2 };

static void test_ports(void)
{
	static const unsigned char group[6] = { 1, 0, 0x5e, 0, 0, 1 };

	CHECK_EQUAL(ob_hub_learn_find(&hub, first), -1);
	ob_hub_learn(&hub, first, 0);
	ob_hub_learn(&hub, second, OB_HUB_PORTS - 1);
	ob_hub_learn(&hub, group, 3);
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), 0);
	CHECK_EQUAL(ob_hub_learn_find(&hub, second), OB_HUB_PORTS - 1);
	CHECK_EQUAL(ob_hub_learn_find(&hub, group), -1);
	ob_hub_learn(&hub, first, 7);
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), 7);
	ob_hub_learn_forget(&hub, 7);
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), -1);
	CHECK_EQUAL(ob_hub_learn_find(&hub, second), OB_HUB_PORTS - 1);
}

/* A port that was silent for long gets no frames for itself alone: others may have its address. */
static void test_age(uint32_t start)
{
	hub.age = start;
	ob_hub_learn(&hub, first, 1);
	hub.age = start + OLDEST;
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), 1);
	hub.age = start + OLDEST + 1;
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), -1);
	/* The next frame renews it. */
	ob_hub_learn(&hub, first, 1);
	CHECK_EQUAL(ob_hub_learn_find(&hub, first), 1);
}

/* A table that is full of old addresses has room for new ones. */
static void test_many(void)
{
	unsigned char address[6] = { 2 };

	for (uint32_t round = 0; round < 3; round++) {
		hub.age += OLDEST + 1;
		for (unsigned int i = 0; i < 4 * OB_HUB_LEARNT; i++) {
			address[3] = (unsigned char)round;
			address[4] = (unsigned char)(i >> 8);
			address[5] = (unsigned char)i;
			ob_hub_learn(&hub, address, i % OB_HUB_PORTS);
			CHECK_EQUAL(ob_hub_learn_find(&hub, address), i % OB_HUB_PORTS);
		}
	}
}

int main(void)
{
	test_ports();
	test_age(0);
	test_age(100);
	test_age(253);		/* a word has eight bits of it */
	test_age(UINT32_MAX - 2);
	test_many();
	return 0;
}
