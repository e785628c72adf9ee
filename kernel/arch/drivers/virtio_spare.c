// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spare network devices: a snapshot has their interfaces, so that a start need not make them.
 *
 *   open -> made -> parked -> saved ... started -> used
 *
 *   step     who                   what
 *   open     the booting thread    has the host make a device, before a vCPU is up: that takes
 *                                  memory and locks of the program
 *   made     the leader            registers the device, as for a program; no interface is up, so
 *                                  no queue has a buffer
 *   parked   the booting thread    closes the host's device; the driver keeps its queues
 *   used     a client              has added a device: the host gets the queues of a spare one,
 *                                  whose interface gets the MAC address of the new one
 *
 * A spare device is used only for a device that its driver cannot tell from the one it has seen:
 * type, features, queues and configuration are equal, except for the MAC address.
 */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/virtio_net.h>
#include <asm/host.h>
#include "../core/driver.h"
#include "../core/spare.h"
#include "virtio_device.h"

/* What the drivers of all spare devices have read. */
static struct virtio_net_config ob_spare_config;

/* What must be equal: all that follows the MAC address and the state of the link. */
#define OB_COMPARED offsetof(struct virtio_net_config, max_virtqueue_pairs)

static void ob_read_config(u32 number, struct virtio_net_config *config)
{
	ob_host_virtio_read(ob_host, number, 0, config, sizeof(*config));
}

static int ob_make_spare(u32 number)
{
	struct ob_virtio_info info;
	char name[IFNAMSIZ];
	int error = ob_host_virtio_info(ob_host, number, &info);

	if (error)
		return error;
	ob_read_config(number, &ob_spare_config);
	return PTR_ERR_OR_ZERO(ob_virtio_add(number, &info, name));
}

static void ob_make_spares(void)
{
	unsigned int i;
	int error = 0;

	for (i = 0; i < ob_spares.count && !error; i++)
		error = ob_make_spare(ob_spares.numbers[i]);
	error = error ?: ob_spares.error;
	if (error)
		pr_warn("a spare network interface cannot be made: error %d\n", error);
}

static void ob_park_spares(void)
{
	struct ob_virtio *virtio;

	list_for_each_entry(virtio, &ob_virtios, list) {
		virtio->number = OB_VIRTIO_NONE;
		ob_virtio_count(-1);
	}
}

static struct ob_driver ob_spare_driver = {
	.make_spares = ob_make_spares,
	.park = ob_park_spares,
};

static int __init ob_spare_init(void)
{
	ob_driver_register(&ob_spare_driver);
	return 0;
}
subsys_initcall(ob_spare_init);

static bool ob_is_like(const struct ob_virtio *spare, u32 number, const struct ob_virtio_info *info)
{
	struct virtio_net_config config;

	if (spare->number != OB_VIRTIO_NONE || memcmp(&spare->info, info, sizeof(*info)))
		return false;
	ob_read_config(number, &config);
	return !memcmp((char *)&config + OB_COMPARED, (char *)&ob_spare_config + OB_COMPARED,
		       sizeof(config) - OB_COMPARED);
}

/* Takes the first one that fits. NULL: none does. */
static struct ob_virtio *ob_take_spare(u32 number, const struct ob_virtio_info *info)
{
	struct ob_virtio *virtio, *found = NULL;

	mutex_lock(&ob_virtios_lock);
	list_for_each_entry(virtio, &ob_virtios, list) {
		if (!ob_is_like(virtio, number, info))
			continue;
		found = virtio;
		found->number = number;
		ob_virtio_count(1);
		break;
	}
	mutex_unlock(&ob_virtios_lock);
	return found;
}

static int ob_is_interface(struct device *child, void *unused)
{
	return child->class && !strcmp(child->class->name, "net");
}

/* The interface gets the MAC address, as its permanent one. */
static int ob_set_address(struct ob_virtio *virtio, char *name)
{
	struct device *child = device_find_child(&virtio->device.dev, NULL, ob_is_interface);
	struct sockaddr address = { .sa_family = ARPHRD_ETHER };
	struct net_device *interface;
	int error;

	if (!child)
		return -ENODEV;
	interface = to_net_dev(child);
	ob_host_virtio_read(ob_host, virtio->number, 0, address.sa_data, ETH_ALEN);
	rtnl_lock();
	error = dev_set_mac_address(interface, &address, NULL);
	if (!error) {
		memcpy(interface->perm_addr, address.sa_data, ETH_ALEN);
		interface->addr_assign_type = NET_ADDR_PERM;
		strscpy(name, interface->name, IFNAMSIZ);
	}
	rtnl_unlock();
	put_device(child);
	return error;
}

static int ob_start_spare(struct ob_virtio *virtio)
{
	struct virtio_device *device = &virtio->device;
	struct virtqueue *queue;
	int error = ob_host_virtio_features(ob_host, virtio->number, device->features);

	list_for_each_entry(queue, &device->vqs, list)
		if (!error)
			error = ob_virtio_offer_vq(virtio, queue);
	return error ?: ob_host_virtio_start(ob_host, virtio->number, virtio->config_interrupt);
}

int ob_virtio_spare_use(u32 number, const struct ob_virtio_info *info, char *name)
{
	struct ob_virtio *virtio = ob_take_spare(number, info);
	int error;

	*name = '\0';
	if (!virtio)
		return -ENOENT;
	error = ob_start_spare(virtio) ?: ob_set_address(virtio, name);
	if (!error)
		return 0;
	ob_virtio_remove(number);
	return error == -ENOENT ? -EIO : error;
}
