// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts of PCI devices on the mock platform: by pins, level and edge, shared by two devices
 * behind a bridge; several messages of one device; sets of vCPUs. The devices are those of
 * pin_bus.c, their driver is the module pin_driver.
 *
 * usage: device_interrupt_test IMAGE CASE MODULE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device_bed.h"
#include "pin_bus.h"

#define LEVEL (OB_PIN_LEVEL | OB_PIN_ACTIVE_LOW)
#define EDGE 0
#define DRIVER "/sys/bus/pci/drivers/pin_driver/"
#define DEVICES "/sys/bus/pci/devices/"
#define WAITS 10000
#define MESSAGE_DATA (0x40 + PCI_MSI_DATA_64)
/* Linux disables an interrupt after this many that no driver wants. */
#define STORM 100000

static const char *const names[PIN_DEVICES] = { "0000:00:00.0", "0000:01:02.0", "0000:01:03.0" };

static struct pin_bus bus;

static void init(uint32_t flags, uint32_t mode)
{
	pin_bus_init(&bus, &host, flags);
	for (int i = 0; i < PIN_DEVICES; i++)
		bus.devices[i].config.bytes[PIN_MODE] = (uint8_t)mode;
}

static void start(const char *image, const char *module, struct mock_options options)
{
	options.memory = 64 * MB;
	options.pinned = true;
	options.executable = true;
	start_with(image, &bus.device, options);
	load_driver(module, "");
}

static void start_pins(const char *image, const char *module, uint32_t flags, uint32_t mode)
{
	init(flags, mode);
	start(image, module, (struct mock_options){ 0 });
	/* One for device 0, and one for the two others. */
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 2);
	for (int i = 0; i < PIN_DEVICES; i++)
		CHECK_EQUAL(pin_register(&bus.devices[i], PIN_VECTORS), 1);
}

static void check_calls(void)
{
	CHECK_EQUAL(mock_counts(host)->wrong_opens, 0);
	CHECK_EQUAL(mock_counts(host)->wrong_ends, 0);
}

static void stop(void)
{
	check_calls();
	stop_host();
}

/* Lets all threads of the kernel run. */
static void pause_shortly(void)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	CALL(SYS_nanosleep, &pause, 0, 0, 0, 0);
}

/* The handler of a message has served so many events, and no more. */
static void check_served_message(int device, uint32_t message, uint32_t count)
{
	uint32_t number = PIN_SERVED + message;

	for (int i = 0; i < WAITS && pin_register(&bus.devices[device], number) < count; i++)
		pause_shortly();
	pause_shortly();
	CHECK_EQUAL(pin_register(&bus.devices[device], number), count);
}

static void check_served(int device, uint32_t count)
{
	check_served_message(device, 0, count);
}

static void control(int device, const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), DEVICES "%s/%s", names[device], file);
	write_file(path, value);
}

static void read_control(int device, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), DEVICES "%s/%s", names[device], file);
	read_file(path);
}

/* The host raises a level interrupt again while the line stays asserted, and only after its end. */
static void test_level(const char *image, const char *module, uint32_t mode)
{
	start_pins(image, module, LEVEL, mode);
	pin_event(&bus.devices[0], 2);
	check_served(0, 1);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 1);
	bus.devices[0].again = 5;
	pin_event(&bus.devices[0], 2);
	check_served(0, 7);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 7);
	CHECK_EQUAL(pin_register(&bus.devices[0], PIN_NOT_MINE), 0);
	stop();
}

/* The host raises the interrupt when the line becomes asserted, and nobody ends it. */
static void test_edge(const char *image, const char *module)
{
	start_pins(image, module, EDGE, 0);
	for (uint32_t i = 1; i <= 3; i++) {
		pin_event(&bus.devices[0], 1);
		check_served(0, i);
	}
	/* An event that comes while the driver has disabled its interrupt arrives later. */
	control(0, "enabled", "0");
	pin_event(&bus.devices[0], 1);
	check_served(0, 3);
	control(0, "enabled", "1");
	check_served(0, 4);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 4);
	stop();
}

/* Two devices behind a bridge have one interrupt. The driver of each sees its own events. */
static void test_shared(const char *image, const char *module, uint32_t mode)
{
	char irq[16];

	start_pins(image, module, LEVEL, mode);
	read_control(1, "irq");
	snprintf(irq, sizeof(irq), "%.15s", text);
	read_control(2, "irq");
	CHECK(!strcmp(irq, text) && strcmp(irq, "0\n"));
	pin_event(&bus.devices[1], 0);
	check_served(1, 1);
	check_served(2, 0);
	pin_event(&bus.devices[2], 0);
	check_served(2, 1);
	check_served(1, 1);
	/* Both at once, and then one while its neighbour has no driver. */
	bus.devices[1].config.bytes[PIN_EVENTS] = 1;
	pin_event(&bus.devices[2], 3);
	check_served(1, 2);
	check_served(2, 2);
	write_file(DRIVER "unbind", names[1]);
	pin_event(&bus.devices[2], 0);
	check_served(2, 3);
	check_served(0, 0);
	stop();
}

/* The line is asserted while the interrupt is disabled, or has no handler. */
static void test_disabled(const char *image, const char *module)
{
	start_pins(image, module, LEVEL, 0);
	control(0, "enabled", "0");
	pin_event(&bus.devices[0], 0);
	check_served(0, 0);
	/* Linux has noticed when the first came, and has masked the interrupt. */
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 1);
	control(0, "enabled", "1");
	check_served(0, 1);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 2);

	/* The line is idle again when the driver enables the interrupt: no handler runs. */
	control(0, "enabled", "0");
	pin_event(&bus.devices[0], 0);
	check_served(0, 1);
	bus.devices[0].config.bytes[PIN_EVENTS] = 0;
	pin_lines(&bus);
	control(0, "enabled", "1");
	check_served(0, 1);
	CHECK_EQUAL(pin_register(&bus.devices[0], PIN_NOT_MINE), 0);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 3);

	write_file(DRIVER "unbind", names[0]);
	/* Drivers leave INTx as it is. */
	pin_event(&bus.devices[0], 0);
	check_served(0, 1);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 3);
	write_file(DRIVER "bind", names[0]);
	check_served(0, 2);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, 4);
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 2);
	stop();
}

/* Numbers that the host raises for no reason. The kernel ends the level interrupts among them. */
static void test_spurious(const char *image, const char *module)
{
	start_pins(image, module, LEVEL, 0);
	for (uint32_t i = 0; i < OB_INTERRUPTS + 64; i++) {
		mock_upcalls(host)->interrupt(i);
		mock_upcalls(host)->interrupt(i);
	}
	/* A kernel that does not check this one writes far beyond its bitmaps. */
	mock_upcalls(host)->interrupt(UINT32_MAX);
	check_served(0, 0);
	for (int i = 0; i < PIN_DEVICES; i++)
		CHECK_EQUAL(pin_register(&bus.devices[i], PIN_NOT_MINE), 1);
	CHECK_EQUAL(mock_counts(host)->wrong_ends, 2);
	pin_event(&bus.devices[0], 0);
	check_served(0, 1);
	CHECK_EQUAL(mock_counts(host)->wrong_ends, 2);
	stop_host();
}

/* No driver serves what asserts the line: Linux disables the interrupt, and the kernel goes on. */
static void test_storm(const char *image, const char *module)
{
	start_pins(image, module, LEVEL, 0);
	bus.devices[0].stuck = true;
	pin_lines(&bus);
	for (int i = 0; i < WAITS && mock_counts(host)->pin_interrupts < STORM; i++)
		pause_shortly();
	check_log("nobody cared");
	/* The other interrupt is as before. */
	pin_event(&bus.devices[1], 0);
	check_served(1, 1);
	stop();
}

/* The host routes no pin to the devices behind the bridge. */
static void test_unrouted(const char *image, const char *module)
{
	init(LEVEL, 0);
	bus.routes[1].pin = 4;
	start(image, module, (struct mock_options){ 0 });
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 1);
	CHECK(bus.questions > 0);
	check_log("0000:01:02.0: no interrupt by pin: "
		  "the host does not route INTC of 0000:00:01.0");
	for (int i = 1; i < PIN_DEVICES; i++) {
		CHECK_EQUAL(pin_register(&bus.devices[i], PIN_VECTORS), 0);
		read_control(i, "irq");
		CHECK(!strcmp(text, "0\n"));
	}
	pin_event(&bus.devices[0], 0);
	check_served(0, 1);
	stop();
}

/* The host routes the bridge's INTC wrongly: only the devices behind it have no interrupt. */
static void test_wrong_route(const char *image, const char *module, uint32_t number,
			     uint32_t flags, const char *message)
{
	init(LEVEL, 0);
	bus.routes[1].number = number;
	bus.routes[1].flags = flags;
	start(image, module, (struct mock_options){ 0 });
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 1);
	check_log(message);
	CHECK_EQUAL(pin_register(&bus.devices[1], PIN_VECTORS), 0);
	pin_event(&bus.devices[0], 0);
	check_served(0, 1);
	stop();
}

/*
 * At a halt the line of one device is asserted while its interrupt is disabled. Another device
 * asserts its line when the kernel takes the bus away. Both interrupts end masked.
 */
static void test_halt(const char *image, const char *module)
{
	uint32_t raised;

	start_pins(image, module, LEVEL, 0);
	control(1, "enabled", "0");
	pin_event(&bus.devices[1], 0);
	bus.devices[0].at_halt = true;
	bus.devices[0].again = 3;
	CHECK_EQUAL(mock_counts(host)->interrupts_live, 2);
	CHECK_EQUAL(mock_halt(host), 0);
	CHECK_EQUAL(mock_counts(host)->interrupts_live, 0);
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 2);
	raised = mock_counts(host)->pin_interrupts;
	CHECK(raised <= 5);
	pin_event(&bus.devices[0], 1);
	pin_event(&bus.devices[1], 1);
	CHECK_EQUAL(mock_counts(host)->pin_interrupts, raised);
	check_calls();
	mock_free(host);
}

static void check_messages(int device, uint32_t count)
{
	const uint8_t *bytes = bus.devices[device].config.bytes;

	CHECK_EQUAL(pin_register(&bus.devices[device], PIN_VECTORS), count);
	for (uint32_t i = 0; i < count; i++) {
		pin_event(&bus.devices[device], i);
		check_served_message(device, i, 1);
		for (uint32_t k = i + 1; k < PIN_MESSAGES_MOST; k++)
			CHECK_EQUAL(bytes[PIN_SERVED + k], 0);
	}
}

/* One device with one message, one with 8, and one whose driver asks for 3. */
static void test_messages(const char *image, const char *module)
{
	static const uint32_t counts[PIN_DEVICES] = { 1, 8, 3 };
	uint64_t data[PIN_DEVICES];

	init(LEVEL, PIN_MESSAGES);
	for (int i = 0; i < PIN_DEVICES; i++)
		bus.devices[i].config.bytes[PIN_WANTED] = (uint8_t)counts[i];
	start(image, module, (struct mock_options){ 0 });
	/* Those that are open for pins come before the driver asks for messages. */
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 2 + 1 + 8 + 3);
	for (int i = 0; i < PIN_DEVICES; i++) {
		check_messages(i, counts[i]);
		data[i] = pci_get(bus.devices[i].config.bytes, MESSAGE_DATA, 2);
	}
	/* Device 2 has room for a fourth message, which its driver has not asked for. */
	pin_event(&bus.devices[2], 3);
	check_served_message(2, 3, 0);
	for (int i = 0; i < PIN_DEVICES; i++)
		write_file(DRIVER "unbind", names[i]);
	CHECK_EQUAL(mock_counts(host)->interrupts_open, 2);
	for (int i = 0; i < PIN_DEVICES; i++) {
		memset(bus.devices[i].config.bytes + PIN_SERVED, 0, 32);
		write_file(DRIVER "bind", names[i]);
		check_messages(i, counts[i]);
		/* The numbers of before are free again. */
		CHECK_EQUAL(pci_get(bus.devices[i].config.bytes, MESSAGE_DATA, 2), data[i]);
	}
	stop();
}

/* The host opens no more than four messages at once: the drivers get one. */
static void test_few_messages(const char *image, const char *module)
{
	init(LEVEL, PIN_MESSAGES);
	bus.devices[1].config.bytes[PIN_WANTED] = 4;
	start(image, module, (struct mock_options){ .messages_most = 4 });
	check_messages(0, 1);
	check_messages(1, 4);
	check_messages(2, 1);
	/* The device has one message for all its events. */
	pin_event(&bus.devices[0], 5);
	check_served(0, 2);
	stop();
}

static void set_affinity(long irq, const char *vcpus)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%ld/smp_affinity", irq);
	write_file(path, vcpus);
	snprintf(path, sizeof(path), "/proc/irq/%ld/effective_affinity", irq);
	read_file(path);
	CHECK_EQUAL(strtol(text, NULL, 16), strtol(vcpus, NULL, 16));
}

/* Only vCPUs of the set handle the interrupt, and the host knows the set. */
static void check_set(long irq, const char *vcpus, uint64_t hint, int without)
{
	long before = handled(names[0], without, &irq), all;
	uint32_t served = pin_register(&bus.devices[0], PIN_SERVED);

	set_affinity(irq, vcpus);
	CHECK_EQUAL(mock_counts(host)->affinity, hint);
	all = handled(names[0], ALL_VCPUS, &irq);
	for (uint32_t i = 1; i <= 8; i++) {
		pin_event(&bus.devices[0], 0);
		check_served(0, served + i);
	}
	CHECK_EQUAL(handled(names[0], without, &irq), before);
	CHECK_EQUAL(handled(names[0], ALL_VCPUS, &irq), all + 8);
}

static void test_sets(const char *image, const char *module, uint32_t mode)
{
	unsigned long vcpus = 0;
	long irq;

	init(LEVEL, mode);
	start(image, module, (struct mock_options){ .vcpus = 3 });
	/* This call waits for vCPUs that are still coming up. */
	CHECK(CALL(SYS_sched_getaffinity, 0, sizeof(vcpus), &vcpus, 0, 0) > 0);
	CHECK_EQUAL(vcpus, 7);
	handled(names[0], ALL_VCPUS, &irq);
	check_set(irq, "6", 6, 0);
	check_set(irq, "5", 5, 1);
	check_set(irq, "3", 3, 2);
	set_affinity(irq, "7");
	CHECK_EQUAL(mock_counts(host)->affinity, OB_ANY_VCPU);
	stop();
}

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 3 ? argv[2] : "", *module = argv[3];

	if (!strcmp(which, "level"))
		test_level(image, module, 0);
	else if (!strcmp(which, "level-threaded"))
		test_level(image, module, PIN_THREADED);
	else if (!strcmp(which, "edge"))
		test_edge(image, module);
	else if (!strcmp(which, "shared"))
		test_shared(image, module, 0);
	else if (!strcmp(which, "shared-threaded"))
		test_shared(image, module, PIN_THREADED);
	else if (!strcmp(which, "disabled"))
		test_disabled(image, module);
	else if (!strcmp(which, "spurious"))
		test_spurious(image, module);
	else if (!strcmp(which, "storm"))
		test_storm(image, module);
	else if (!strcmp(which, "unrouted"))
		test_unrouted(image, module);
	else if (!strcmp(which, "wrong-pin"))
		test_wrong_route(image, module, MOCK_PINS, LEVEL,
				 "no interrupt by pin: INTC of 0000:00:01.0: error -22");
	else if (!strcmp(which, "other-flags"))
		test_wrong_route(image, module, PIN_OF_DEVICE_0, EDGE,
				 "no interrupt by pin: INTC of 0000:00:01.0: error -16");
	else if (!strcmp(which, "halt"))
		test_halt(image, module);
	else if (!strcmp(which, "messages"))
		test_messages(image, module);
	else if (!strcmp(which, "few-messages"))
		test_few_messages(image, module);
	else if (!strcmp(which, "sets"))
		test_sets(image, module, 0);
	else if (!strcmp(which, "sets-messages"))
		test_sets(image, module, PIN_MESSAGES);
	else
		CHECK(!"usage: device_interrupt_test IMAGE CASE MODULE");
	puts("done");
	return 0;
}
