// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: which other ports there are.
 *
 * Only the thread that receives changes the list (before that thread starts, the one that opens
 * the port). A peer that left is unmapped later, when no thread transmits. Until then no peer is
 * added: the thread may still change the link of the one that left.
 *
 * The file may say anything. A peer stays as long as its port's lock is held, whatever its entry
 * is; it is replaced only by memory that contains the entry's number.
 */
#include <stdlib.h>
#include <string.h>

#include "hub.h"

#define LOOKS_AFTER_END 100	/* a second */

static void add(struct ob_hub *hub, unsigned int port, struct ob_hub_peer *peer)
{
	struct ob_hub_link *link = &hub->control->links[port];

	/* The peer looks at the positions when it sees its number. */
	__atomic_store_n(&link->number, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&link->sent, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&link->taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&link->number, peer->number, __ATOMIC_RELEASE);
	__atomic_store_n(&hub->peers[port], peer, __ATOMIC_SEQ_CST);
	hub->present |= 1ull << port;
}

static void retire(struct ob_hub *hub, unsigned int port)
{
	struct ob_hub_peer *peer = hub->peers[port];

	if (!peer)
		return;
	__atomic_store_n(&hub->peers[port], NULL, __ATOMIC_SEQ_CST);
	hub->present &= ~(1ull << port);
	ob_hub_learn_forget(hub, port);
	peer->next_retired = hub->retired;
	hub->retired = peer;
}

/*
 * The list has the peer no more. A thread that does not transmit now finds it no more; one that
 * does may have it still.
 */
void ob_hub_peers_clean(struct ob_hub *hub)
{
	if (!hub->retired || __atomic_load_n(&hub->transmitting, __ATOMIC_SEQ_CST))
		return;
	while (hub->retired) {
		struct ob_hub_peer *peer = hub->retired;

		hub->retired = peer->next_retired;
		ob_hub_peer_free(peer);
	}
}

/* In a fork()ed child, which has none of the mappings. */
void ob_hub_peers_forked(struct ob_hub *hub)
{
	for (unsigned int port = 0; port < OB_HUB_PORTS; port++)
		free(hub->peers[port]);
}

/* No thread transmits any more. */
void ob_hub_peers_free(struct ob_hub *hub)
{
	for (unsigned int port = 0; port < OB_HUB_PORTS; port++)
		retire(hub, port);
	ob_hub_peers_clean(hub);
}

/* The frames that a port sent before it left are still taken, if that does not last for ever. */
static bool has_rest(struct ob_hub *hub, unsigned int port)
{
	struct ob_hub_peer *peer = hub->peers[port];

	return peer && ob_hub_has_frame(hub, port) && peer->looks_after_end++ < LOOKS_AFTER_END;
}

/* Returns 0 also if the peer cannot be added before another look. */
static int replace(struct ob_hub *hub, unsigned int port, const struct ob_hub_entry *entry)
{
	struct ob_hub_peer *new;
	int error = ob_hub_peer_open(hub, port, entry, &new);

	if (error)
		return error;
	if (has_rest(hub, port)) {
		hub->look_soon = true;
		ob_hub_peer_free(new);
		return 0;
	}
	retire(hub, port);
	ob_hub_peers_clean(hub);
	if (hub->retired)
		ob_hub_peer_free(new);
	else
		add(hub, port, new);
	return 0;
}

static int update_one(struct ob_hub *hub, unsigned int port, const struct ob_hub_entry *entry)
{
	const struct ob_hub_peer *peer = hub->peers[port];

	if (ob_hub_file_is_alive(hub, port)) {
		if (!entry->number || (peer && peer->number == entry->number))
			return 0;
		return replace(hub, port, entry);
	}
	if (has_rest(hub, port))
		hub->look_soon = true;
	else
		retire(hub, port);
	return 0;
}

int ob_hub_peers_update(struct ob_hub *hub, struct ob_hub_entry *failed)
{
	struct ob_hub_entry entries[OB_HUB_PORTS];
	int result = 0;

	hub->look_soon = false;
	ob_hub_file_entries(hub, entries);
	for (unsigned int port = 0; port < OB_HUB_PORTS; port++) {
		int error;

		if (port == hub->port || (!entries[port].number && !hub->peers[port]))
			continue;
		error = update_one(hub, port, &entries[port]);
		if (error && ob_hub_file_is_alive(hub, port)) {
			*failed = entries[port];
			result = error;
		}
	}
	hub->look_soon |= hub->retired != NULL;
	/* Somebody may have overwritten the file. */
	if (memcmp(&entries[hub->port], &hub->entry, sizeof(hub->entry)))
		ob_hub_file_publish(hub);
	return result;
}

void ob_hub_peers_notify(struct ob_hub *hub)
{
	for (uint64_t rest = hub->present; rest; rest &= rest - 1) {
		struct ob_hub_bell *bell = hub->peers[__builtin_ctzll(rest)]->bell;

		__atomic_add_fetch(&bell->changes, 1, __ATOMIC_SEQ_CST);
		ob_hub_ring_bell(bell);
	}
}
