/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of virtio devices. */
#ifndef OUTBOARD_DRIVERS_VIRTIO_H
#define OUTBOARD_DRIVERS_VIRTIO_H

/* Closes the host's side of all devices. Only after every vCPU has stopped. */
void ob_virtio_close_all(void);

#endif
