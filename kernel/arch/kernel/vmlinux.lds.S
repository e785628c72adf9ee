/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Layout of the kernel as one relocatable object. It is linked once more, into
 * a shared object or a program, where absolute addresses do not survive:
 * every mark and every alignment must be inside an output section.
 */
#define LOAD_OFFSET 0
#include <asm/cache.h>
#include <asm/page.h>
#include <asm/thread_info.h>

/* Nothing is made read-only later: it is among the other data. */
#define RO_AFTER_INIT_DATA
#include <asm-generic/vmlinux.lds.h>

OUTPUT_FORMAT("elf64-x86-64")
jiffies = jiffies_64;

SECTIONS
{
	.text : {
		_text = .;
		_stext = .;
		TEXT_TEXT
		SCHED_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		*(.fixup)
		_etext = .;
	}
	RO_DATA(PAGE_SIZE)
	/* Where RO_DATA says that it ends does not survive the second link. */
	.rodata.end : { __end_rodata = .; LONG(0) }
	/* As RW_DATA has it, with the marks inside: only that survives the second link. lockdep looks at them. */
	.data : {
		_sdata = .;
		INIT_TASK_DATA(THREAD_SIZE)
		NOSAVE_DATA
		PAGE_ALIGNED_DATA(PAGE_SIZE)
		CACHELINE_ALIGNED_DATA(L1_CACHE_BYTES)
		READ_MOSTLY_DATA(L1_CACHE_BYTES)
		. = ALIGN(8);
		__start_ro_after_init = .;
		*(.data..ro_after_init)
		JUMP_TABLE_DATA
		STATIC_CALL_DATA
		__end_ro_after_init = .;
		DATA_DATA
		CONSTRUCTORS
		*(.data.rel .data.rel.*)
		_edata = .;
	}
	BUG_TABLE
	EXCEPTION_TABLE(16)
	.init.begin : { __init_begin = .; LONG(0) }
	INIT_TEXT_SECTION(PAGE_SIZE)
	/* Initcalls that only fill sysfs: core/deferred.c runs them. */
	.init.deferred : {
		ob_deferred_initcalls = .;
		KEEP(*mm/slub.o(.initcall7.init))
		KEEP(*kernel/params.o(.initcall7.init))
		ob_deferred_initcalls_end = .;
	}
	INIT_DATA_SECTION(16)
	PERCPU_SECTION(L1_CACHE_BYTES)
	.init.end : { __init_end = .; LONG(0) }
	BSS_SECTION(0, 0, 0)
	.tbss : { *(.tbss .tbss.*) }

	STABS_DEBUG
	DWARF_DEBUG
	ELF_DETAILS
	DISCARDS
}
