/* SPDX-License-Identifier: GPL-2.0-only */
/* Ports of the device in port_device.c, counted from the first one of BAR 0. */
#ifndef OUTBOARD_TESTS_PORT_REGISTERS_H
#define OUTBOARD_TESTS_PORT_REGISTERS_H

#define PORT_SCRATCH 0x00	/* 16 bytes, which keep what is written */
#define PORT_QUEUE 0x10		/* 1, 2 or 4 bytes: what is written here is read here */
#define PORT_ADDRESS 0x20	/* 32 bits: bus address of RAM */
#define PORT_LENGTH 0x24	/* 32 bits: bytes */
#define PORT_COMMAND 0x28	/* 32 bits: the device does this at once */
#define PORT_RESULT 0x2c	/* 32 bits: 0 if the last command could reach RAM */
#define PORT_COUNT 0x40

#define COMMAND_TO_DEVICE 1	/* copies RAM to the device's bytes */
#define COMMAND_FROM_DEVICE 2	/* copies the device's bytes to RAM */

#define DEVICE_BYTES 4096

/* A device of one byte that is on no bus. */
#define LEGACY_PORT 0x61

#endif
