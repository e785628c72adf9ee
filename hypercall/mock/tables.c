// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of hypercalls: the required groups and the timer, and the groups of the disk, of the
 * device, of windows and of programs if a test has them.
 */
#include "internal.h"

#define MEMBER(group, name) .name = ob_host_##name,
#define GROUP(name, members)					\
	static const struct ob_host_##name host_##name = {	\
		.size = sizeof(host_##name),			\
		members(MEMBER, name)				\
	}

GROUP(info, OB_HOST_INFO);
GROUP(memory, OB_HOST_MEMORY);
GROUP(threads, OB_HOST_THREADS);
GROUP(clocks, OB_HOST_CLOCKS);
GROUP(console, OB_HOST_CONSOLE);
GROUP(timer, OB_HOST_TIMER);
GROUP(mapping, OB_HOST_MAPPING);
GROUP(block, OB_HOST_BLOCK);
GROUP(interrupts, OB_HOST_INTERRUPTS);
GROUP(iomem, OB_HOST_IOMEM);
GROUP(ports, OB_HOST_PORTS);
GROUP(dma, OB_HOST_DMA);
GROUP(pci, OB_HOST_PCI);
GROUP(spaces, OB_HOST_SPACES);

void mock_tables_fill(const struct ob_host *host, struct ob_hypercalls *table)
{
	const struct mock_device *device = host->options.device;

	*table = (struct ob_hypercalls) {
		.size = host->options.table_size ? host->options.table_size : sizeof(*table),
		.version = OB_INTERFACE_VERSION,
		.info = &host_info,
		.memory = &host_memory,
		.threads = &host_threads,
		.clocks = &host_clocks,
		.console = &host_console,
		.timer = &host_timer,
		.mapping = host->options.mapping ? &host_mapping : NULL,
		.block = host->options.disk_size ? &host_block : NULL,
		.interrupts = device ? &host_interrupts : NULL,
		.iomem = device ? &host_iomem : NULL,
		.ports = device && device->port_read ? &host_ports : NULL,
		.dma = device && !host->options.no_dma ? &host_dma : NULL,
		.pci = device ? &host_pci : NULL,
		.spaces = host->options.program ? &host_spaces : NULL,
	};
	if (host->options.change)
		host->options.change(table);
}
