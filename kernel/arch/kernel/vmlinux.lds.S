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
	.data.begin : { _sdata = .; LONG(0) }
	RW_DATA(L1_CACHE_BYTES, PAGE_SIZE, THREAD_SIZE)
	.data.rel : { *(.data.rel .data.rel.*) }
	.data.end : { _edata = .; LONG(0) }
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
