/* SPDX-License-Identifier: GPL-2.0-only */
/* The virtio file system device: device.c. */
#ifndef OUTBOARD_DEVICES_FS_DEVICE_H
#define OUTBOARD_DEVICES_FS_DEVICE_H

#include "virtio.h"
#include "share.h"

/*
 * Makes a device that serves the share, and starts its thread. The device owns the share after
 * this, also if it fails. `tag`: the name by which the kernel mounts it. -ENOMEM, -EAGAIN.
 */
int ob_fs_device_new(struct ob_host *host, struct ob_fs_share *share, const char *tag,
		     struct ob_virtio_device **device);

/* Whether it is such a device, and the kernel has mounted it; and has this tag. */
bool ob_fs_device_is_mounted(const struct ob_virtio_device *device);
bool ob_fs_device_has_tag(const struct ob_virtio_device *device, const char *tag);

#endif
