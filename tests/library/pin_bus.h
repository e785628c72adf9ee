/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PCI bus whose devices interrupt by pins or messages, for kernels on the mock platform. The
 * module pin_driver drives the devices.
 *
 *   bus 0   slot 0: device 0, INTA
 *           slot 1: bridge   slot 2: device 1, INTA   both are INTC of the bridge
 *                            slot 3: device 2, INTD
 *
 * A device has no memory. Its registers are in configuration space.
 */
#ifndef OUTBOARD_TESTS_PIN_BUS_H
#define OUTBOARD_TESTS_PIN_BUS_H

#include "mock.h"
#include "pci_config.h"

/* Registers of a device, 8 bits each. pin_driver.c has the same numbers. */
enum {
	PIN_EVENTS = 0x80,	/* events that the driver has not served; writing 1 clears a bit */
	PIN_MODE = 0x81,	/* for the driver: enum pin_mode */
	PIN_WANTED = 0x82,	/* how many messages the driver asks for */
	PIN_VECTORS = 0x83,	/* from the driver: interrupts that it got; 0: it does not run */
	PIN_NOT_MINE = 0x84,	/* counts interrupts without an event of this device */
	PIN_SERVED = 0x90,	/* 32 counts of what the handler of each message has served */
	PIN_REGISTERS_END = 0xb0
};

enum pin_mode {
	PIN_MESSAGES = 1,	/* no pin */
	PIN_THREADED = 2,	/* a thread serves the device */
};

#define PIN_DEVICES 3
#define PIN_MESSAGES_MOST 8

/* Pins of the platform: those of device 0, and of the devices behind the bridge. */
#define PIN_OF_DEVICE_0 3
#define PIN_OF_BRIDGE 5

/* A pin of bus 0 and the platform's pin that it reaches. */
struct pin_route {
	uint32_t function, pin;
	uint32_t number, flags;
};

struct pin_bus;

struct pin_device {
	struct mock_device device;
	struct pci_config config;
	struct pin_bus *bus;
	uint32_t number;		/* of the platform's pin to which it is wired */
	uint32_t again;			/* events to come, each when the driver has served one */
	bool stuck;			/* asserts the line without an event */
	bool at_halt;			/* has an event when the kernel clears the bus master bit */
};

struct pin_bus {
	struct mock_device device;	/* for struct mock_options */
	struct ob_host **host;
	struct pin_device devices[PIN_DEVICES];
	struct pin_device bridge;
	struct pin_route routes[2];	/* function 0: INTA, the bridge: INTC */
	uint32_t questions;		/* about pins that `routes` lacks */
};

/* `flags`: of both pins of the platform. */
void pin_bus_init(struct pin_bus *bus, struct ob_host **host, uint32_t flags);

/* Something happens on a device: it sends the message, or asserts its line. */
void pin_event(struct pin_device *device, uint32_t event);

/* Sets the lines of the platform, after a change of `stuck`. */
void pin_lines(struct pin_bus *bus);

uint32_t pin_register(const struct pin_device *device, uint32_t number);

#endif
