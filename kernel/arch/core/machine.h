/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of the whole kernel. */
#ifndef OUTBOARD_CORE_MACHINE_H
#define OUTBOARD_CORE_MACHINE_H

#include <linux/types.h>

struct task_struct;

enum ob_panicking {
	OB_PANIC_BEGUN = 1,		/* no disk is written to any more */
	OB_PANIC_REPORTED = 2,		/* the host goes on, without this kernel's threads */
};

struct ob_machine {
	u32 ready;			/* word: system calls can be made */
	u32 halting;
	u32 stopping;
	u32 gone;			/* the memory is released, or another process has it */
	u32 panicking;			/* enum ob_panicking */
	u32 booted;			/* 1 from the start of the only boot */
	u32 vcpus;
	int spinners_max;		/* how many threads may spin at a time: spin.c */
	atomic_t spinners;
	int console_level;
	u64 memory;			/* ceiling */
	bool ram_is_pinned;		/* OB_HOST_RAM_IS_PINNED */
	bool ram_is_executable;		/* OB_HOST_RAM_IS_EXECUTABLE */
	u64 clock_offset;		/* the host's monotonic clock minus ours */
	u64 boot_time;			/* of our clock */
	u64 saved_time;			/* of our clock, when a snapshot was taken */
	const char *command_line;
	const char *components;		/* to be loaded before the first call */
	int components_error;
	u32 spare_interfaces;		/* that a snapshot has in advance */
	u32 snapshot;			/* the kernel is to be saved: snapshot.c */
	u32 savable;			/* word: the kernel can be saved now */
	u32 renew;			/* word: 1 until the leader has renewed what must differ */
	struct task_struct *leader;	/* of the process that local clients are threads of */
};
extern struct ob_machine ob_machine;

#endif
