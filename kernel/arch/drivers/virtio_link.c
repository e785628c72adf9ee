// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of the link of virtio network interfaces.
 *
 * Linux's driver reads the state by a worker: after its probe, and after the device reports a
 * change. An interface that goes down cancels that work, and for ever: one that goes down at once
 * after its first up has no carrier when it comes up again (virtnet_close() and virtnet_open() of
 * drivers/net/virtio_net.c). So each time that an interface comes up, this file reports a change
 * of the state to the driver.
 */
#include <linux/init.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/virtio_config.h>
#include "virtio_device.h"

/* Is that a virtio device of the host? Others may be on the PCI bus. */
static bool ob_is_of_host(struct device *device)
{
	return device && device->bus && !strcmp(device->bus->name, "virtio") &&
	       dev_to_virtio(device)->config == &ob_virtio_operations;
}

static int ob_link_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct device *parent = netdev_notifier_info_to_dev(info)->dev.parent;

	if (event == NETDEV_UP && ob_is_of_host(parent))
		virtio_config_changed(dev_to_virtio(parent));
	return NOTIFY_DONE;
}

static struct notifier_block ob_link_block = { .notifier_call = ob_link_event };

static int __init ob_link_init(void)
{
	return register_netdevice_notifier(&ob_link_block);
}
device_initcall(ob_link_init);
