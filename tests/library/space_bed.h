/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the tests of the group spaces: user code is small machine code in RAM, and no
 * kernel is there. Each test runs in a process of its own. Link with space_bed.c, platform_bed.c.
 */
#ifndef OUTBOARD_TESTS_SPACE_BED_H
#define OUTBOARD_TESTS_SPACE_BED_H

#include <stdbool.h>
#include <sys/types.h>

#include <outboard/hypercall_spaces.h>

#include "space/stub.h"

#include "platform_bed.h"


/* The addresses at which the tests show code and data, and the pages of RAM behind them. */
#define CODE 0x400000ull
#define DATA 0x500000ull
#define CODE_PAGE (1 * PAGE)
#define DATA_PAGE (2 * PAGE)

#define READ OB_PROTECTION_READ
#define WRITE (OB_PROTECTION_READ | OB_PROTECTION_WRITE)
#define EXECUTE (OB_PROTECTION_READ | OB_PROTECTION_EXECUTE)

/* Machine code as a string. */
#define BYTES(text) text, sizeof(text) - 1

/* The first is of the last call of a space_*() function below. */
extern struct ob_space_event event;
extern struct ob_space_registers registers;

char *ram(uint64_t physical);

/* A space with this code at CODE, and a page for data at DATA that is its stack, too. */
uint64_t new_space(const char *code, size_t size);
void map(uint64_t space, uint64_t address, uint64_t physical, uint32_t protection);

/* Enters on vCPU 0 with `registers`; returns the event's kind. */
uint32_t enter(uint64_t space);
/* From CODE on, with other registers 0. */
uint32_t enter_at_code(uint64_t space);

/* Calls a function on a thread every millisecond until end_repeating(). */
void repeat(void (*fn)(void));
void end_repeating(void);
void interrupt_all(void);

/* The process of a space. */
pid_t stub_of(uint64_t space);
/* Waits some seconds at most. */
bool process_ends(pid_t pid);

#endif
