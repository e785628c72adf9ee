// SPDX-License-Identifier: GPL-2.0-only
/*
 * An unmodified Linux driver of a PCI device, on the mock platform: configuration space, device
 * memory, DMA with bus addresses that are not physical ones, and messages as interrupts.
 *
 * usage: device_test IMAGE CASE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "mock.h"
#include "virtio_rng.h"

#define MB (1ul << 20)
#define FUNCTION "0000:00:00.0"
#define DEVICE "/sys/bus/pci/devices/" FUNCTION
#define ALL_VCPUS (-1)
#define LOWEST_BUS 0x40000000ull

static struct ob_host *host;
static struct rng rng;
static char text[16384];

#define CALL(number, a, b, c, d, e) \
	mock_call(host, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

static void start_as_prepared(const char *image, struct mock_options options)
{
	options.device = &rng.device;
	options.vcpus = options.vcpus ? options.vcpus : 1;
	options.log_level = 4;
	host = mock_new(image, &options);
	CHECK(host);
	CHECK_EQUAL(mock_boot(host), 0);
	CALL(SYS_mkdir, "/sys", 0755, 0, 0, 0);
	CALL(SYS_mount, "none", "/sys", "sysfs", 0, 0);
}

static void start(const char *image, struct mock_options options)
{
	rng_init(&rng, &host);
	start_as_prepared(image, options);
}

static void stop(void)
{
	CHECK_EQUAL(mock_halt(host), 0);
	CHECK(!rng_is_master(&rng));
	mock_free(host);
}

/* Reads from the device, some of it perhaps read before. */
static void read_random(void)
{
	unsigned char bytes[512];
	long fd = CALL(SYS_open, "/dev/hwrng", O_RDONLY, 0, 0, 0);

	CHECK(fd >= 0);
	for (int i = 0; i < 8; i++) {
		memset(bytes, 0, sizeof(bytes));
		CHECK_EQUAL(CALL(SYS_read, fd, bytes, sizeof(bytes), 0, 0), sizeof(bytes));
		for (size_t k = 0; k < sizeof(bytes); k++)
			CHECK_EQUAL(bytes[k] & 0xf0, 0xa0);
	}
	CHECK_EQUAL(CALL(SYS_close, fd, 0, 0, 0, 0), 0);
}

static void write_file(const char *path, const char *value)
{
	long fd = CALL(SYS_open, path, O_WRONLY, 0, 0, 0), length = (long)strlen(value);

	CHECK(fd >= 0);
	CHECK_EQUAL(CALL(SYS_write, fd, value, length, 0, 0), length);
	CALL(SYS_close, fd, 0, 0, 0, 0);
}

static void read_file(const char *path)
{
	long fd = CALL(SYS_open, path, O_RDONLY, 0, 0, 0), length;

	CHECK(fd >= 0);
	length = CALL(SYS_read, fd, text, sizeof(text) - 1, 0, 0);
	CHECK(length > 0);
	text[length] = '\0';
	CALL(SYS_close, fd, 0, 0, 0, 0);
}

/*
 * How often a vCPU has handled the interrupt of that name; ALL_VCPUS: the sum of all vCPUs. Stores
 * Linux's number of the interrupt.
 */
static long handled(const char *name, int vcpu, long *irq)
{
	long count = 0;
	char *line, *end;

	read_file("/proc/interrupts");
	line = strstr(text, name);
	CHECK(line);
	while (line > text && line[-1] != '\n')
		line--;
	*irq = strtol(line, &line, 10);
	line++;
	for (int column = 0;; column++, line = end) {
		long part = strtol(line, &end, 10);

		if (end == line)
			return count;
		if (vcpu == ALL_VCPUS || vcpu == column)
			count += part;
	}
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
	start_as_prepared(image, (struct mock_options){ .memory = 64 * MB, .pinned = true });
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
	CHECK_EQUAL(mock_counts(host)->affinity, 1);
	/* What was on its way to the first one arrives before the counts are read. */
	read_random();
	for (int i = 0; i < 2; i++)
		before[i] = handled("virtio0-input", i, &irq);
	read_random();
	CHECK_EQUAL(handled("virtio0-input", 0, &irq), before[0]);
	CHECK(handled("virtio0-input", 1, &irq) > before[1]);
	check_transfers();
	stop();
}

/* The host lacks what PCI needs: the kernel works, and leaves the bus alone. */
static void test_no_bus(const char *image, struct mock_options options)
{
	long fd;

	options.memory = 64 * MB;
	start(image, options);
	CHECK_EQUAL(CALL(SYS_access, DEVICE, F_OK, 0, 0, 0), -ENOENT);
	CHECK_EQUAL(rng.status, 0);
	CHECK(!rng_is_master(&rng));
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 0);
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

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 2 ? argv[2] : "";

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
		test_no_bus(image, (struct mock_options){});
	else if (!strcmp(which, "no-dma"))
		test_no_bus(image, (struct mock_options){ .pinned = true, .no_dma = true });
	else if (!strcmp(which, "old-table"))
		test_no_bus(image, (struct mock_options){
			.pinned = true, .table_size = offsetof(struct ob_hypercalls, interrupts),
		});
	else if (!strcmp(which, "short-table"))
		test_short_table(image);
	else if (!strcmp(which, "bus"))
		test_bus(image);
	else if (!strcmp(which, "borders"))
		test_borders(image);
	else
		CHECK(!"usage: device_test IMAGE CASE");
	puts("done");
	return 0;
}
