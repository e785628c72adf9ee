// SPDX-License-Identifier: GPL-2.0-only
/* The host's devices for the spare interfaces of a snapshot: spare.h. */
#include <linux/minmax.h>
#include <outboard/hypercall.h>
#include <asm/host.h>
#include "spare.h"

struct ob_spares ob_spares;

void ob_spares_open(unsigned int count)
{
	while (ob_spares.count < min(count, OB_SPARES_MOST)) {
		int number = ob_host_virtio_spare(ob_host);

		if (number < 0) {
			ob_spares.error = number;
			return;
		}
		ob_spares.numbers[ob_spares.count++] = number;
	}
}

void ob_spares_close(void)
{
	while (ob_spares.count)
		ob_host_virtio_close(ob_host, ob_spares.numbers[--ob_spares.count]);
}
