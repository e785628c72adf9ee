// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: which port has a MAC address, learnt from the frames that come.
 *
 * A hash table of words, with two places for an address. The thread that receives writes a word as
 * a whole; threads that transmit read it. A word has the address in 48 bits, the port in 8, and in
 * the other 8 the low bits of hub->age when the last frame came. An old word is not used.
 */
#include "hub.h"

#define OLDEST 5		/* of age: some five minutes */

#define ADDRESS_BITS 48
#define ADDRESS_MASK ((1ull << ADDRESS_BITS) - 1)
/* Zero is no port, so that no word of an address is zero. */
#define WORD(address, port, age) \
	((address) | (uint64_t)((port) + 1) << ADDRESS_BITS | (uint64_t)((age) & 0xff) << 56)

static uint64_t number_of(const unsigned char address[6])
{
	uint64_t number = 0;

	for (int i = 0; i < 6; i++)
		number = number << 8 | address[i];
	return number;
}

static unsigned int place_of(uint64_t number)
{
	return (unsigned int)(number * 0x9e3779b97f4a7c15ull >> 55) * 2 % OB_HUB_LEARNT;
}

static unsigned int port_of(uint64_t word)
{
	return (unsigned int)(word >> ADDRESS_BITS & 0xff) - 1;
}

static bool is_old(const struct ob_hub *hub, uint64_t word)
{
	uint32_t age = __atomic_load_n(&hub->age, __ATOMIC_RELAXED);

	return !word || ((age - (uint32_t)(word >> 56)) & 0xff) > OLDEST;
}

int ob_hub_learn_find(const struct ob_hub *hub, const unsigned char address[6])
{
	uint64_t number = number_of(address);
	unsigned int place = place_of(number);

	for (unsigned int i = place; i < place + 2; i++) {
		uint64_t word = __atomic_load_n(&hub->learnt[i], __ATOMIC_RELAXED);

		if ((word & ADDRESS_MASK) == number && !is_old(hub, word))
			return (int)port_of(word);
	}
	return -1;
}

/* The place of the address, else one that is not in use, else the first. */
static uint64_t *choose(struct ob_hub *hub, uint64_t number)
{
	uint64_t *places = &hub->learnt[place_of(number)];

	for (int i = 0; i < 2; i++)
		if (places[i] && (places[i] & ADDRESS_MASK) == number)
			return &places[i];
	return is_old(hub, places[1]) && !is_old(hub, places[0]) ? &places[1] : &places[0];
}

void ob_hub_learn(struct ob_hub *hub, const unsigned char address[6], unsigned int port)
{
	uint64_t number = number_of(address);
	uint64_t word = WORD(number, port, hub->age);
	uint64_t *place;

	if (address[0] & 1)
		return;		/* a group is no sender */
	place = choose(hub, number);
	if (*place != word)
		__atomic_store_n(place, word, __ATOMIC_RELAXED);
}

void ob_hub_learn_forget(struct ob_hub *hub, unsigned int port)
{
	for (int i = 0; i < OB_HUB_LEARNT; i++)
		if (hub->learnt[i] && port_of(hub->learnt[i]) == port)
			__atomic_store_n(&hub->learnt[i], 0, __ATOMIC_RELAXED);
}
