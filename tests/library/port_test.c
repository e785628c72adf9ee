// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ports, and devices that reach the lower 4 GB of the bus only, on the mock platform. The device is
 * that of port_device.c, and the module port_driver drives it.
 *
 * usage: port_test IMAGE CASE [MODULE]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_bed.h"
#include "port_device.h"

#define GB (1ull << 30)
#define DEVICE "/sys/bus/pci/devices/0000:00:00.0"
#define FIRST_PORT 0x2000

static struct port_device ports;

/* Ports are an address space of their own: RAM has the same numbers on the bus. */
static const struct ob_dma_extent from_zero[] = { { 0, 0, 64 * MB } };

static const struct ob_pci_window windows[] = {
	{ .address = MOCK_WINDOW_ADDRESS, .size = MOCK_WINDOW_SIZE },
	{ .address = FIRST_PORT, .size = 0x1000, .flags = OB_PCI_PORTS },
};

static struct mock_options machine(uint64_t memory, const struct ob_dma_extent *extents,
				   uint32_t count)
{
	return (struct mock_options) {
		.memory = memory, .pinned = true, .executable = true,
		.extents = extents, .extent_count = count,
		.windows = windows, .window_count = 2,
	};
}

static void start(const char *image, struct mock_options options)
{
	port_device_init(&ports, &host);
	start_with(image, &ports.device, options);
}

static void test_ports(const char *image, const char *module)
{
	char parameters[64];

	start(image, machine(64 * MB, from_zero, 1));
	snprintf(parameters, sizeof(parameters), "what=ports window=%d", FIRST_PORT);
	load_driver(module, parameters);
	CHECK(ports.accesses > 0);
	CHECK(ports.unanswered > 0);
	/* The kernel itself answers for ports that do not exist. */
	CHECK_EQUAL(ports.wrong, 0);
	CHECK_EQUAL(mock_counts(host)->wrong_unmaps, 0);
	CHECK_EQUAL(ports.legacy, 0x5a);
	CHECK_EQUAL(CALL(SYS_ioperm, LEGACY_PORT, 1, 1, 0, 0), -ENOSYS);
	CHECK_EQUAL(CALL(SYS_iopl, 3, 0, 0, 0, 0), -ENOSYS);
	stop_host();
}

/* The host has no ports, or not all functions of the group. */
static void test_no_ports(const char *image, const char *module)
{
	struct mock_options options = machine(64 * MB, from_zero, 1);

	port_device_init(&ports, &host);
	ports.device.port_read = NULL;
	options.window_count = 1;
	start_with(image, &ports.device, options);
	load_driver(module, "what=no-ports");
	CHECK_EQUAL(ports.accesses, 0);
	stop_host();
}

static void refuse(const char *image, const struct ob_pci_window *wrong, uint32_t count,
		   bool has_ports, const char *message)
{
	struct mock_options options = machine(64 * MB, from_zero, 1);

	port_device_init(&ports, &host);
	if (!has_ports)
		ports.device.port_read = NULL;
	options.windows = wrong;
	options.window_count = count;
	start_with(image, &ports.device, options);
	check_log(message);
	CHECK_EQUAL(CALL(SYS_access, DEVICE, F_OK, 0, 0, 0), -ENOENT);
	CHECK(!ports.accesses);
	stop_host();
}

/* Windows of ports: beyond the last port, empty, with other flags, over another one. */
static void test_windows(const char *image)
{
	static const struct ob_pci_window wrong[] = {
		{ .address = 0x10000, .size = 0x1000, .flags = OB_PCI_PORTS },
		{ .address = 0xf000, .size = 0x1001, .flags = OB_PCI_PORTS },
		{ .address = 0xf000, .size = -0x1000ull, .flags = OB_PCI_PORTS },
		{ .address = FIRST_PORT, .size = 0, .flags = OB_PCI_PORTS },
		{ .address = FIRST_PORT, .size = 0x1000,
		  .flags = OB_PCI_PORTS | OB_PCI_PREFETCHABLE },
		{ .address = MOCK_WINDOW_ADDRESS, .size = MB, .flags = 4 },
	};
	static const struct ob_pci_window overlap[] = {
		{ .address = FIRST_PORT, .size = 0x1000, .flags = OB_PCI_PORTS },
		{ .address = FIRST_PORT + 0xfff, .size = 0x1000, .flags = OB_PCI_PORTS },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refuse(image, &wrong[i], 1, true, "window 0 of the PCI bus is wrong");
	refuse(image, overlap, 2, true, "windows 0 and 1 of the PCI bus overlap");
	refuse(image, windows, 2, false,
	       "window 1 of the PCI bus is for ports, but the host has none");
}

/* Pages that a zone has now. */
static long pages_of(const char *zone)
{
	char *line;
	long pages;

	read_file("/proc/zoneinfo");
	line = strstr(text, zone);
	CHECK(line);
	line = strstr(line, "present ");
	CHECK(line && sscanf(line, "present %ld", &pages) == 1);
	return pages;
}

/*
 * A machine of 8 GB: a part of RAM is below 4 GB of the bus, the rest is above. With the module,
 * RAM's ceiling is lower: all of it must be within 2 GB of the kernel's text.
 */
static void test_bounce(const char *image, const char *module)
{
	static const struct ob_dma_extent extents[] = {
		{ 0, 0x10000000, 64 * MB }, { 64 * MB, 5 * GB, 8 * GB - 64 * MB },
	};

	start(image, machine(8 * GB, extents, 2));
	check_log("software IO TLB: mapped");
	stop_host();
	start(image, machine(GB, extents, 2));
	load_driver(module, "what=bounce required=0x1ffffffff");
	/* RAM has grown meanwhile: all of the first extent is in this zone, and nothing else. */
	CHECK_EQUAL(pages_of("DMA32"), 64 * MB / 4096);
	CHECK(pages_of("Normal") > 0);
	CHECK_EQUAL(ports.wrong, 0);
	stop_host();
}

/*
 * Nothing is bounced. The mask ends where RAM ends: below 4 GB, so all RAM is one zone, or above,
 * so all RAM is another zone.
 */
static void test_covered(const char *image, const char *module)
{
	static const struct ob_dma_extent low[] = { { 0, 4 * GB - 128 * MB, 128 * MB } };
	static const struct ob_dma_extent high[] = { { 0, 8 * GB - 128 * MB, 128 * MB } };

	start(image, machine(128 * MB, low, 1));
	check_log("Zone ranges");
	CHECK(!strstr(text, "software IO TLB"));
	load_driver(module, "what=covered bits=32");
	CHECK(pages_of("DMA32") > 0);
	CHECK_EQUAL(pages_of("Normal"), 0);
	stop_host();
	start(image, machine(128 * MB, high, 1));
	check_log("Zone ranges");
	CHECK(!strstr(text, "software IO TLB"));
	load_driver(module, "what=covered bits=33");
	CHECK_EQUAL(pages_of("DMA32"), 0);
	stop_host();
}

/* RAM of a host without devices. */
static void test_no_devices(const char *image)
{
	start_with(image, NULL, (struct mock_options){ .memory = 64 * MB });
	CHECK_EQUAL(pages_of("DMA32"), 0);
	stop_host();
}

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 2 ? argv[2] : "";
	const char *module = argc > 3 ? argv[3] : "";

	if (!strcmp(which, "ports"))
		test_ports(image, module);
	else if (!strcmp(which, "no-ports"))
		test_no_ports(image, module);
	else if (!strcmp(which, "port-windows"))
		test_windows(image);
	else if (!strcmp(which, "bounce"))
		test_bounce(image, module);
	else if (!strcmp(which, "covered"))
		test_covered(image, module);
	else if (!strcmp(which, "no-devices"))
		test_no_devices(image);
	else
		CHECK(!"usage: port_test IMAGE CASE [MODULE]");
	puts("done");
	return 0;
}
