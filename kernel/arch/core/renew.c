// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each start from a snapshot makes anew: secrets and identities that Linux chose while it
 * booted, and that all starts from one file would share otherwise.
 *
 * This runs before the first call. So no socket, address, route or neighbour depends on the old
 * values, and every file system that is mounted is one of the kernel's own. Values that live tables
 * depend on stay: docs/snapshots.md lists them, tests/library/shared.py makes the list.
 */
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/if_arp.h>
#include <linux/init.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/uuid.h>
#include <net/arp.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <uapi/linux/random.h>
#include "renew.h"

/* The linker script has put them here: each only chooses a secret, and can do so again. */
extern initcall_entry_t ob_secret_initcalls[], ob_secret_initcalls_end[];

/* The only caller while the kernel boots is an initcall itself; Linux keeps such code here. */
static int __ref ob_choose_secrets(void)
{
	for (initcall_entry_t *entry = ob_secret_initcalls; entry < ob_secret_initcalls_end;
	     entry++)
		initcall_from_entry(entry)();
	return 0;
}
arch_initcall(ob_choose_secrets);

/* drivers/char/random.c: the generator takes new numbers from the host before its next use. */
static void ob_renew_random(void)
{
	/* -ENODATA: nobody can have got any yet. */
	random_fops.unlocked_ioctl(NULL, RNDRESEEDCRNG, 0);
}

/* Mounted with a UUID when the kernel is saved: /, /dev, /sys, and the tmpfs of unnamed files. */
#define OB_UUIDS 8
static struct super_block *ob_with_uuid[OB_UUIDS];
static unsigned int ob_with_uuid_count;

static void ob_note_uuid(struct super_block *sb, void *unused)
{
	if (sb->s_uuid_len == sizeof(uuid_t) && !WARN_ON_ONCE(ob_with_uuid_count == OB_UUIDS))
		ob_with_uuid[ob_with_uuid_count++] = sb;
}

/* A visit of all superblocks writes to each: in a start, that would copy many pages. */
void ob_secrets_note(void)
{
	ob_with_uuid_count = 0;
	iterate_supers(ob_note_uuid, NULL);
}

/* File systems without a disk choose theirs when they are mounted. None can be unmounted yet. */
static void ob_renew_uuids(void)
{
	uuid_t uuid;

	for (unsigned int i = 0; i < ob_with_uuid_count; i++) {
		uuid_gen(&uuid);
		super_set_uuid(ob_with_uuid[i], uuid.b, sizeof(uuid));
	}
}

#ifdef CONFIG_INET
/* Without the table's lock, for a copy of its page: the only vCPU runs this task. */
static void ob_renew_neighbour_hash(struct neigh_table *table)
{
	struct neigh_hash_table *hash = rcu_dereference_protected(table->nht, true);

	/* ipv6.disable=1: Linux has not made the table of NDP. */
	for (int i = 0; hash && i < NEIGH_NUM_HASH_RND && !atomic_read(&table->entries); i++)
		hash->hash_rnd[i] = get_random_u32() | 1;
}

/*
 * Components may have made interfaces, as bond0. All are down, so no table has their addresses.
 * Tunnels have no MAC address; Linux makes their IPv6 addresses of `perm_addr`.
 */
static void ob_renew_hardware_addresses(void)
{
	struct net_device *device;

	for_each_netdev(&init_net, device) {
		if (device->addr_assign_type != NET_ADDR_RANDOM)
			continue;
		if (device->type == ARPHRD_ETHER)
			eth_hw_addr_random(device);
		else
			eth_random_addr(device->perm_addr);
	}
}

static void ob_renew_network(void)
{
	get_random_bytes(&init_net.hash_mix, sizeof(init_net.hash_mix));
	atomic_set(&init_net.ipv4.dev_addr_genid, get_random_u32());
	ob_renew_neighbour_hash(&arp_tbl);
	if (IS_BUILTIN(CONFIG_IPV6))
		ob_renew_neighbour_hash(&nd_tbl);
	ob_renew_hardware_addresses();
}
#else
static void ob_renew_network(void)
{
}
#endif

void ob_renew_secrets(void)
{
	ob_renew_random();
	if (rng_is_initialized())
		ob_choose_secrets();
	ob_renew_uuids();
	ob_renew_network();
}
