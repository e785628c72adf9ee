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
	/*
	 * Where RO_DATA says that it ends does not survive the second link. This section has a name
	 * of its own, so that the second link puts it behind all of RO_DATA, the versions of
	 * modules for one: lockdep accepts static keys there.
	 */
	outboard_rodata_end : { __end_rodata = .; LONG(0) }
	/*
	 * All data that the kernel writes to are between marks of its own: a snapshot has them, and
	 * not those of the program. The order is Linux's; lockdep looks at the marks inside.
	 */
	outboard_data : {
		ob_image_data = .;
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
		. = ALIGN(8);
		BOUNDED_SECTION_BY(__bug_table, ___bug_table)
		. = ALIGN(16);
		BOUNDED_SECTION_BY(__ex_table, ___ex_table)
		__init_begin = .;
		/*
		 * Dodge mm/slub.o, kernel/params.o: only fill sysfs; core/deferred.c runs them when
		 * somebody looks.
		 */
		. = ALIGN(8);
		ob_deferred_initcalls = .;
		KEEP(*mm/slub.o(.initcall7.init))
		KEEP(*kernel/params.o(.initcall7.init))
		ob_deferred_initcalls_end = .;
#ifdef CONFIG_OUTBOARD_SNAPSHOT
		/*
		 * Dodge kernel/kcmp.o, lib/vsprintf.o: only choose a secret; core/renew.c runs them
		 * again after a snapshot.
		 */
		ob_secret_initcalls = .;
		KEEP(*kernel/kcmp.o(.initcall3.init))
		KEEP(*lib/vsprintf.o(.initcall4.init))
		ob_secret_initcalls_end = .;
#endif
		. = ALIGN(16);
		INIT_DATA
		INIT_SETUP(16)
		INIT_CALLS
		CON_INITCALL
		INIT_RAM_FS
		. = ALIGN(PAGE_SIZE);
		__per_cpu_load = .;
		PERCPU_INPUT(L1_CACHE_BYTES)
		__init_end = .;
		ob_image_data_end = .;
	}
	INIT_TEXT_SECTION(PAGE_SIZE)
	outboard_bss : {
		__bss_start = .;
		*(.bss..page_aligned)
		*(.sbss) *(.bss .bss.[0-9a-zA-Z_]*) *(COMMON)
		__bss_stop = .;
		_end = .;
	}
	/*
	 * What the host passed to this process (core/host.c), and what threads that are late look
	 * at (core/gate.c). A snapshot must not have it. The loader leaves these pages alone when
	 * it makes all other data new.
	 */
	outboard_host : {
		ob_kept = .;
		*(outboard_host)
		. = ALIGN(PAGE_SIZE);
		*(outboard_wiped)
		. = ALIGN(PAGE_SIZE);
		ob_kept_end = .;
	}

	STABS_DEBUG
	DWARF_DEBUG
	ELF_DETAILS
	DISCARDS
}
