// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drivers of PCI devices on the mock platform: configuration space, device memory, DMA with bus
 * addresses that are not physical ones, and messages as interrupts. One driver is Linux's own, for
 * the device of virtio_rng.c. The other one is the module memory_driver, for memory_device.c.
 *
 * usage: device_test IMAGE CASE [MODULE]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device_bed.h"
#include "memory_device.h"
#include "virtio_rng.h"

#define FUNCTION "0000:00:00.0"
#define DEVICE "/sys/bus/pci/devices/" FUNCTION
#define LOWEST_BUS 0x40000000ull

static struct rng rng;

static void start(const char *image, struct mock_options options)
{
	rng_init(&rng, &host);
	start_with(image, &rng.device, options);
}

/* Any kernel leaves the device without access to RAM, from before its vCPUs stop. */
static void stop(void)
{
	stop_host();
	CHECK_EQUAL(rng.stops, 1);
	CHECK(!rng.master_at_stop);
	CHECK_EQUAL(rng.live_at_stop, 0);
	CHECK(!pci_is_master(&rng.config));
}

/* Reads from the device, some of it perhaps read before. `high`: upper half of each byte. */
static void read_bytes(int high)
{
	unsigned char bytes[512];
	long fd = CALL(SYS_open, "/dev/hwrng", O_RDONLY, 0, 0, 0);

	CHECK(fd >= 0);
	for (int i = 0; i < 8; i++) {
		memset(bytes, 0, sizeof(bytes));
		CHECK_EQUAL(CALL(SYS_read, fd, bytes, sizeof(bytes), 0, 0), sizeof(bytes));
		for (size_t k = 0; k < sizeof(bytes); k++)
			CHECK_EQUAL(bytes[k] & 0xf0, high);
	}
	CHECK_EQUAL(CALL(SYS_close, fd, 0, 0, 0, 0), 0);
}

static void read_random(void)
{
	read_bytes(rng.high);
}

static void check_transfers(void)
{
	CHECK(rng.buffers > 0);
	CHECK(rng.messages > 0);
	CHECK_EQUAL(rng.unreachable, 0);
	CHECK(rng.lowest >= LOWEST_BUS);
}

static void test_transfers(const char *image, uint32_t vcpus)
{
	long irq, before;

	start(image, (struct mock_options){ .memory = 64 * MB, .vcpus = vcpus, .pinned = true });
	CHECK_EQUAL(mock_counts(host)->interrupts_open, RNG_VECTORS);
	/* The firmware's interrupt line is not the number of a Linux interrupt. */
	read_file(DEVICE "/irq");
	CHECK(!strcmp(text, "0\n"));
	before = handled("virtio0-input", ALL_VCPUS, &irq);
	read_random();
	check_transfers();
	CHECK(handled("virtio0-input", ALL_VCPUS, &irq) > before);
	stop();
}

/* The device sends its messages before there is a handler. */
static void test_early(const char *image)
{
	long irq;

	rng_init(&rng, &host);
	rng.hasty = true;
	start_with(image, &rng.device,
		   (struct mock_options){ .memory = 64 * MB, .pinned = true });
	CHECK_EQUAL(handled("virtio0-config", ALL_VCPUS, &irq), 1);
	read_random();
	check_transfers();
	stop();
}

/* Messages that nobody has asked for, and numbers that are none. */
static void test_unknown(const char *image)
{
	static const uint32_t numbers[] = {
		0, 2, 15, 16, 17, 18, 63, 64, 500, 1023, 1024, 65536, UINT32_MAX,
	};

	start(image, (struct mock_options){ .memory = 64 * MB, .pinned = true });
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		mock_upcalls(host)->interrupt(numbers[i]);
		mock_message(host, rng.vectors[0].address_low, numbers[i]);
		mock_message(host, numbers[i], rng.vectors[0].data);
		CHECK(CALL(SYS_getppid, 0, 0, 0, 0, 0) >= 0);
	}
	read_random();
	check_transfers();
	stop();
}

/* The driver goes, with its interrupts; what comes late is ignored. It comes again. */
static void test_unbind(const char *image)
{
	struct rng_vector old;

	start(image, (struct mock_options){ .memory = 64 * MB, .pinned = true });
	old = rng.vectors[1];
	for (int i = 0; i < 3; i++) {
		read_random();
		write_file("/sys/bus/pci/drivers/virtio-pci/unbind", FUNCTION);
		CHECK_EQUAL(mock_counts(host)->interrupts_open, 0);
		mock_message(host, old.address_low, old.data);
		CHECK_EQUAL(CALL(SYS_getppid, 0, 0, 0, 0, 0) >= 0, 1);
		write_file("/sys/bus/pci/drivers/virtio-pci/bind", FUNCTION);
		CHECK_EQUAL(mock_counts(host)->interrupts_open, RNG_VECTORS);
	}
	read_random();
	check_transfers();
	stop();
}

/* The host gets the hint, and only that vCPU handles the interrupt. */
static void test_affinity(const char *image)
{
	unsigned long vcpus = 0;
	long irq, before[2];
	char path[64];

	start(image, (struct mock_options){ .memory = 64 * MB, .vcpus = 2, .pinned = true });
	/* The second one may still be coming up: this call waits for it. */
	CHECK(CALL(SYS_sched_getaffinity, 0, sizeof(vcpus), &vcpus, 0, 0) > 0);
	CHECK_EQUAL(vcpus, 3);
	CHECK_EQUAL(mock_counts(host)->affinity, OB_ANY_VCPU);
	handled("virtio0-input", ALL_VCPUS, &irq);
	snprintf(path, sizeof(path), "/proc/irq/%ld/smp_affinity", irq);
	write_file(path, "2");
	CHECK_EQUAL(mock_counts(host)->affinity, 2);
	/* Data on its way to the first device arrives before the counts are read. */
	read_random();
	for (int i = 0; i < 2; i++)
		before[i] = handled("virtio0-input", i, &irq);
	read_random();
	CHECK_EQUAL(handled("virtio0-input", 0, &irq), before[0]);
	CHECK(handled("virtio0-input", 1, &irq) > before[1]);
	check_transfers();
	stop();
}

/*
 * The host lacks what PCI needs: the kernel works, and leaves the bus alone. The kernel's log
 * contains `message`; NULL: anything. `check`: what else to check; may be NULL.
 */
static void test_no_bus(const char *image, struct mock_options options, const char *message,
			void (*check)(void))
{
	long fd;

	options.memory = 64 * MB;
	start(image, options);
	CHECK_EQUAL(CALL(SYS_access, DEVICE, F_OK, 0, 0, 0), -ENOENT);
	CHECK_EQUAL(rng.status, 0);
	CHECK(!pci_is_master(&rng.config));
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 0);
	if (message)
		check_log(message);
	if (check)
		check();
	fd = CALL(SYS_open, "/dev/hwrng", O_RDONLY, 0, 0, 0);
	CHECK(fd < 0 || CALL(SYS_read, fd, text, 16, 0, 0) < 0);
	stop();
}

/* A table that ends before a required group. */
static void test_short_table(const char *image)
{
	struct mock_options options = {
		.memory = 64 * MB, .vcpus = 1,
		.table_size = offsetof(struct ob_hypercalls, console),
	};

	CHECK(!mock_new(image, &options));
}

/* Found by Linux, with or without a driver. */
static void test_bus(const char *image)
{
	char path[64];

	start(image, (struct mock_options){ .memory = 64 * MB, .pinned = true });
	CHECK_EQUAL(CALL(SYS_access, DEVICE, F_OK, 0, 0, 0), 0);
	/* Clients cannot map device memory. */
	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), DEVICE "/resource%d", i);
		CHECK_EQUAL(CALL(SYS_access, path, F_OK, 0, 0, 0), -ENOENT);
	}
	stop();
}

static void fill_memory(const char *path)
{
	long fd = CALL(SYS_open, path, O_CREAT | O_WRONLY, 0600, 0, 0);

	CHECK(fd >= 0);
	memset(text, 'x', sizeof(text));
	while (CALL(SYS_write, fd, text, sizeof(text), 0, 0) > 0)
		;
	CALL(SYS_close, fd, 0, 0, 0, 0);
}

static bool is_used(uint64_t physical)
{
	const char *page = mock_ram(host, physical);

	for (int i = 0; i < 4096; i++)
		if (page[i])
			return true;
	return false;
}

/* No buffer reaches over a gap of bus addresses: the page before it is in no use. */
static void test_borders(const char *image)
{
	static const uint64_t borders[] = { MOCK_BORDER_BOOT, MOCK_BORDER_LATE };

	start(image, (struct mock_options){ .memory = 256 * MB, .pinned = true });
	CHECK_EQUAL(CALL(SYS_mkdir, "/ram", 0755, 0, 0, 0), 0);
	CHECK_EQUAL(CALL(SYS_mount, "none", "/ram", "tmpfs", 0, "size=100%"), 0);
	fill_memory("/ram/full");
	CHECK(mock_counts(host)->extended > MOCK_BORDER_LATE);
	for (int i = 0; i < 2; i++) {
		CHECK(is_used(borders[i] - 2 * 4096));
		CHECK(!is_used(borders[i] - 4096));
		CHECK(is_used(borders[i]));
	}
	CHECK_EQUAL(CALL(SYS_unlink, "/ram/full", 0, 0, 0, 0), 0);
	read_random();
	check_transfers();
	stop();
}

/*
 * The driver resets its device while that still reaches the bus and has its interrupts. Data that
 * the device sends after the halt is ignored. stop() checks the order.
 */
static void test_halt(const char *image, uint32_t vcpus)
{
	struct rng_vector vector;

	start(image, (struct mock_options){ .memory = 64 * MB, .vcpus = vcpus, .pinned = true });
	read_random();
	vector = rng.vectors[1];
	CHECK_EQUAL(mock_counts(host)->interrupts_live, RNG_VECTORS);
	CHECK(rng.status);
	CHECK_EQUAL(mock_halt(host), 0);
	CHECK_EQUAL(rng.status, 0);
	CHECK(rng.reset_as_master);
	CHECK_EQUAL(rng.live_at_reset, RNG_VECTORS);
	CHECK_EQUAL(mock_counts(host)->interrupts_open, RNG_VECTORS);
	CHECK_EQUAL(mock_counts(host)->interrupts_live, 0);
	mock_message(host, vector.address_low, vector.data);
	mock_free(host);
	CHECK_EQUAL(rng.stops, 1);
	CHECK(!rng.master_at_stop);
	CHECK_EQUAL(rng.live_at_stop, 0);
}

/* Each of two kernels has its device, at the same addresses, and the same interrupts. */
static void test_two_kernels(const char *image)
{
	static struct rng rngs[2];
	static struct ob_host *hosts[2];

	for (int i = 0; i < 2; i++) {
		rng_init(&rngs[i], &hosts[i]);
		rngs[i].high = i ? 0xb0 : 0xa0;
		load(image, &rngs[i].device,
		     (struct mock_options){ .memory = 64 * MB, .pinned = true });
		hosts[i] = host;
		boot();
	}
	for (int round = 0; round < 8; round++) {
		host = hosts[round % 2];
		read_bytes(rngs[round % 2].high);
	}
	for (int i = 0; i < 2; i++) {
		host = hosts[i];
		CHECK(rngs[i].buffers > 0 && rngs[i].messages > 0);
		CHECK_EQUAL(rngs[i].unreachable, 0);
		stop_host();
		CHECK(!pci_is_master(&rngs[i].config));
		/* The other one goes on. */
		CHECK_EQUAL(pci_is_master(&rngs[1].config), i == 0);
		host = hosts[1];
		if (i == 0)
			read_bytes(rngs[1].high);
	}
}

/* The host's extents are wrong: no device gets access to RAM. */
static void test_wrong_extents(const char *image)
{
	static const struct ob_dma_extent wrong[][2] = {
		/* On the bus they overlap, or are the same. */
		{ { 0, 0x40000000, 32 * MB }, { 32 * MB, 0x41000000, 64 * MB } },
		{ { 0, 0x41000000, 32 * MB }, { 32 * MB, 0x40000000, 64 * MB } },
		{ { 0, 0x40000000, 64 * MB }, { 64 * MB, 0x40000000, 64 * MB } },
		/* In physical addresses they overlap, or have a gap, or descend. */
		{ { 0, 0x40000000, 48 * MB }, { 32 * MB, 0x80000000, 64 * MB } },
		{ { 0, 0x40000000, 16 * MB }, { 32 * MB, 0x80000000, 64 * MB } },
		{ { 32 * MB, 0x80000000, 64 * MB }, { 0, 0x40000000, 32 * MB } },
		/* They do not begin at 0, are not aligned, empty, or reach beyond all addresses. */
		{ { 4 * MB, 0x40000000, 60 * MB }, { 64 * MB, 0x80000000, 64 * MB } },
		{ { 0, 0x40001000, 32 * MB }, { 32 * MB, 0x80000000, 64 * MB } },
		{ { 0, 0x40000000, 32 * MB }, { 32 * MB, 0x80000000, 0 } },
		{ { 0, 0x40000000, 32 * MB }, { 32 * MB, -(32 * MB), 64 * MB } },
		/* They end before RAM does. */
		{ { 0, 0x40000000, 16 * MB }, { 16 * MB, 0x80000000, 32 * MB } },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		test_no_bus(image, (struct mock_options){
			.pinned = true, .extents = wrong[i], .extent_count = 2,
		}, "no device reaches RAM: the host's extents are wrong", NULL);
}

/* One extent more than the kernel takes. All of them are right. */
static void test_many_extents(const char *image)
{
	struct ob_dma_extent extents[17];

	for (uint64_t i = 0; i < 17; i++)
		extents[i] = (struct ob_dma_extent) {
			.physical = i * 4 * MB, .bus = LOWEST_BUS + i * 4 * MB, .size = 4 * MB,
		};
	test_no_bus(image, (struct mock_options){
		.pinned = true, .extents = extents, .extent_count = 17,
	}, "no device reaches RAM: the host's extents are wrong", NULL);
	start(image, (struct mock_options){
		.memory = 64 * MB, .pinned = true, .extents = extents, .extent_count = 16,
	});
	read_random();
	check_transfers();
	stop();
}

/* The kernel does not use the bus: no window of it is reserved. */
static void check_no_window(void)
{
	long fd = CALL(SYS_open, "/proc/iomem", O_RDONLY, 0, 0, 0), length;

	CHECK(fd >= 0);
	length = CALL(SYS_read, fd, text, sizeof(text) - 1, 0, 0);
	CHECK(length >= 0);
	text[length] = '\0';
	CALL(SYS_close, fd, 0, 0, 0, 0);
	CHECK(!strstr(text, "PCI"));
}

/* A window of the bus has the same addresses as RAM: its begin, its end, or all of it. */
static void test_window_over_ram(const char *image)
{
	static const struct ob_dma_extent wrong[] = {
		{ 0, MOCK_WINDOW_ADDRESS, 64 * MB },
		{ 0, MOCK_WINDOW_ADDRESS - 60 * MB, 64 * MB },
		{ 0, MOCK_WINDOW_ADDRESS - 32 * MB, 64 * MB },
		/* RAM ends before the window, the extent does not. */
		{ 0, MOCK_WINDOW_ADDRESS - 64 * MB, 128 * MB },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		test_no_bus(image, (struct mock_options){
			.pinned = true, .extents = &wrong[i], .extent_count = 1,
		}, "window 0 of the PCI bus overlaps RAM", check_no_window);
}

/*
 * The last window is wrong: over another one, empty, beyond the addresses that a bus has, over RAM,
 * one too many.
 */
static void test_wrong_window(const char *image)
{
	static const struct ob_pci_window wrong[][2] = {
		{ { .address = MOCK_WINDOW_ADDRESS, .size = MB }, { .address = 0xd0000000 } },
		{ { .address = MOCK_WINDOW_ADDRESS, .size = MB },
		  { .address = 1ull << 63, .size = MB } },
		{ { .address = MOCK_WINDOW_ADDRESS, .size = MB },
		  { .address = 0xd0000000, .size = -(uint64_t)MB } },
		{ { .address = MOCK_WINDOW_ADDRESS, .size = MB },
		  { .address = LOWEST_BUS, .size = MB } },
	};
	/* Each is right, but they overlap. */
	static const struct ob_pci_window overlap[] = {
		{ .address = MOCK_WINDOW_ADDRESS, .size = 2 * MB },
		{ .address = MOCK_WINDOW_ADDRESS + MB, .size = 2 * MB },
	};
	struct ob_pci_window many[9];

	test_window_over_ram(image);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		test_no_bus(image, (struct mock_options){
			.pinned = true, .windows = wrong[i], .window_count = 2,
		}, "window 1 of the PCI bus", check_no_window);
	test_no_bus(image, (struct mock_options){
		.pinned = true, .windows = overlap, .window_count = 2,
	}, "windows 0 and 1 of the PCI bus overlap", check_no_window);
	for (uint64_t i = 0; i < 9; i++)
		many[i] = (struct ob_pci_window){
			.address = MOCK_WINDOW_ADDRESS + i * MB, .size = MB,
		};
	test_no_bus(image, (struct mock_options){
		.pinned = true, .windows = many, .window_count = 9,
	}, "window 8 of the PCI bus is wrong", check_no_window);
}

static void start_memory_device(const char *image, struct memory_device *device, uint64_t memory)
{
	start_with(image, &device->device,
		   (struct mock_options){ .memory = memory, .pinned = true, .executable = true });
}

static void drive_memory(const char *module, const struct memory_device *device, bool mapped,
			 uint8_t seed)
{
	char parameters[64];

	snprintf(parameters, sizeof(parameters), "what=memory mapped=%d seed=%d", mapped, seed);
	load_driver(module, parameters);
	CHECK_EQUAL(device->misplaced, 0);
	CHECK_EQUAL(device->accesses > 0, !mapped);
	for (uint32_t i = 0; i < MEMORY_SIZE; i++)
		CHECK_EQUAL(device->memory[i], (uint8_t)~(seed + i * 7 + i / 256));
	CHECK_EQUAL(mock_counts(host)->device_maps, 0);
	CHECK_EQUAL(mock_counts(host)->wrong_unmaps, 0);
}

/* Device memory of several pages that the host maps, or that each access is a hypercall for. */
static void test_memory(const char *image, const char *module, bool mapped)
{
	struct memory_device device;

	memory_device_init(&device, mapped, 3);
	start_memory_device(image, &device, 64 * MB);
	drive_memory(module, &device, mapped, 3);
	stop_host();
	free(device.memory);
}

/* One kernel's host maps device memory, the other one's does not. */
static void test_memory_of_two(const char *image, const char *module)
{
	static struct memory_device devices[2];
	struct ob_host *hosts[2];

	for (int i = 0; i < 2; i++) {
		memory_device_init(&devices[i], i, (uint8_t)(100 * i));
		start_memory_device(image, &devices[i], 64 * MB);
		hosts[i] = host;
	}
	for (int i = 0; i < 2; i++) {
		host = hosts[i];
		drive_memory(module, &devices[i], i, (uint8_t)(100 * i));
	}
	for (int i = 0; i < 2; i++) {
		host = hosts[i];
		stop_host();
		free(devices[i].memory);
	}
}

/* Other checks of the module. */
static void test_driver(const char *image, const char *module, const char *parameters)
{
	struct memory_device device;

	memory_device_init(&device, false, 0);
	start_memory_device(image, &device, 256 * MB);
	load_driver(module, parameters);
	stop_host();
	free(device.memory);
}

/*
 * At a halt, reboot notifiers come before the shutdown of devices. The driver's interrupt handler
 * runs when the kernel has just cleared the bus master bit, and sets that bit again.
 */
static void test_halt_order(const char *image, const char *module)
{
	struct memory_device device;

	memory_device_init(&device, false, 0);
	device.host = &host;
	start_memory_device(image, &device, 64 * MB);
	load_driver(module, "what=halt");
	CHECK(pci_is_master(&device.config));
	CHECK_EQUAL(mock_counts(host)->interrupts_live, 1);
	CHECK_EQUAL(mock_halt(host), 0);
	/* Bytes that the driver has written: see HALT_* there. */
	CHECK_EQUAL(device.memory[0], 1);
	CHECK_EQUAL(device.memory[1], 1);
	CHECK_EQUAL(device.memory[2], 1);
	CHECK(!pci_is_master(&device.config));
	CHECK_EQUAL(mock_counts(host)->interrupts_live, 0);
	mock_free(host);
	free(device.memory);
}

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 2 ? argv[2] : "";
	const char *module = argc > 3 ? argv[3] : "";

	if (!strcmp(which, "transfers"))
		test_transfers(image, 1);
	else if (!strcmp(which, "transfers-2"))
		test_transfers(image, 2);
	else if (!strcmp(which, "early"))
		test_early(image);
	else if (!strcmp(which, "unknown"))
		test_unknown(image);
	else if (!strcmp(which, "unbind"))
		test_unbind(image);
	else if (!strcmp(which, "affinity"))
		test_affinity(image);
	else if (!strcmp(which, "not-pinned"))
		test_no_bus(image, (struct mock_options){}, "the host has not pinned RAM", NULL);
	else if (!strcmp(which, "no-dma"))
		test_no_bus(image, (struct mock_options){ .pinned = true, .no_dma = true },
			    "the host lacks calls", NULL);
	else if (!strcmp(which, "old-table"))
		test_no_bus(image, (struct mock_options){
			.pinned = true, .table_size = offsetof(struct ob_hypercalls, interrupts),
		}, NULL, NULL);
	else if (!strcmp(which, "short-table"))
		test_short_table(image);
	else if (!strcmp(which, "bus"))
		test_bus(image);
	else if (!strcmp(which, "borders"))
		test_borders(image);
	else if (!strcmp(which, "halt"))
		test_halt(image, 1);
	else if (!strcmp(which, "halt-2"))
		test_halt(image, 2);
	else if (!strcmp(which, "two-kernels"))
		test_two_kernels(image);
	else if (!strcmp(which, "wrong-extents"))
		test_wrong_extents(image);
	else if (!strcmp(which, "many-extents"))
		test_many_extents(image);
	else if (!strcmp(which, "wrong-window"))
		test_wrong_window(image);
	else if (!strcmp(which, "memory"))
		test_memory(image, module, false);
	else if (!strcmp(which, "memory-mapped"))
		test_memory(image, module, true);
	else if (!strcmp(which, "memory-of-two"))
		test_memory_of_two(image, module);
	else if (!strcmp(which, "masks"))
		test_driver(image, module, "what=masks required=0x3ffffffff");
	else if (!strcmp(which, "halt-order"))
		test_halt_order(image, module);
	else if (!strcmp(which, "resource"))
		test_driver(image, module, "what=resource");
	else
		CHECK(!"usage: device_test IMAGE CASE [MODULE]");
	puts("done");
	return 0;
}
