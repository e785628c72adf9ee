/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual links in the kernel, for tests of the network. Links with net_links.c, net_message.c
 * and client.c.
 */
#ifndef OUTBOARD_TESTS_NET_LINKS_H
#define OUTBOARD_TESTS_NET_LINKS_H

#include <stdbool.h>
#include <stdint.h>

struct net_message;
typedef void net_link_words(struct net_message *message);

/* Makes a link of a kind that needs no more words, a dummy, two ends of a cable. They are down. */
void net_make_link(const char *kind, const char *name);
/* The same above another link (NULL: none), with the words of its kind (NULL: none). */
void net_make_link_with(const char *kind, const char *name, const char *below,
			net_link_words *add_words);
void net_make_dummy(const char *name);
void net_make_veth(const char *name, const char *peer);
void net_delete_link(const char *name);
/* In one call, so that hardly any work is done in between. */
void net_up_down_up(const char *name);
/* Moves a link into the network namespace of a task. */
void net_move_link(const char *name, long task);
/* Makes a link a port of a bridge or a bond. */
void net_set_controller(const char *name, const char *controller);

/* Calls ob_net_add, or ends the program with its reason. Returns the interface's number. */
int net_add(const char *description, char name[16]);
/* Calls ob_net_configure, or ends the program with its reason. */
void net_configure(const char *name, const char *changes);

/* Whether a program can bind a socket to the address now: an interface has it. */
bool net_has_address(const char *address);

bool net_is_up(const char *name);
/* Whether it sends now. Other than netlink, this does not wait for what Linux still has to do. */
bool net_has_link(const char *name);
int net_mtu(const char *name);
int net_index(const char *name);

/* Copies the address that a packet to `destination` comes from. False: there is no route. */
bool net_source(const char *destination, char *source, uint32_t size);

/* Reads a file of the kernel. False: there is none. */
bool net_read_file(const char *path, char *text, uint32_t size);

#endif
