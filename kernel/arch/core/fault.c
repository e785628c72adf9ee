// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory faults, as the platform reports them (ob_kernel_fault).
 *
 * A fault is the kernel's if the instruction is kernel code, and the program's otherwise (V10).
 * Which thread it is on says nothing: a signal handler of the program may have interrupted kernel
 * code, a call that waits, or a thread that has lent itself.
 *
 * A kernel mapping that the host has lost comes back from the page tables, without taking kernel
 * locks (V12). The client window is demand-paged: a fault there is a page fault. An instruction
 * with an exception-table entry goes on there: -EFAULT. Other kernel code is broken: it dies with
 * a message.
 */
#include <linux/extable.h>
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <asm/host.h>
#include <asm/sections.h>
#include "gate.h"
#include "machine.h"
#include "mmu.h"
#include "page_entry.h"
#include "panic.h"
#include "space.h"
#include "vcpu.h"

/* On a host without a window for modules, the only code in RAM is that of modules. */
static bool ob_is_module_code(unsigned long address)
{
	if (!ob_layout.modules_end && ob_machine.ram_is_executable)
		return address >= ob_layout.ram && address < ob_layout.ram_ceiling;
	return address >= ob_layout.modules && address < ob_layout.modules_end;
}

static bool ob_is_kernel_code(unsigned long address)
{
	return is_kernel_text(address) || is_kernel_inittext(address) || ob_is_module_code(address);
}

/* Is the calling thread in the kernel, which may have called the platform? */
static bool ob_in_kernel(void)
{
	return ob_thread_is_known() && current &&
	       (ob_this_thread->kind != OB_THREAD_CLIENT || ob_client_is_in());
}

/* Where nothing can be executed, the return address tells who has jumped there. */
static bool ob_is_by_kernel(const struct ob_fault *fault)
{
	unsigned long caller;

	if (ob_is_kernel_code(fault->instruction))
		return true;
	/* The stack of a program that has jumped nowhere may be unreadable. */
	return fault->flags & OB_FAULT_EXECUTE && ob_in_kernel() &&
	       !ob_load(&caller, (const void *)fault->stack, sizeof(caller)) &&
	       ob_is_kernel_code(caller);
}

int fixup_exception(struct pt_regs *regs)
{
	const struct exception_table_entry *entry = search_exception_tables(regs->ip);

	if (!entry)
		return 0;
	regs->ip = (unsigned long)&entry->fixup + entry->fixup;
	return 1;
}

static bool ob_fault_fixup(struct ob_fault *fault)
{
	struct pt_regs regs = { .ip = fault->instruction };

	if (!fixup_exception(&regs))
		return false;
	fault->instruction = regs.ip;
	return true;
}

#ifdef CONFIG_MMU
static bool ob_in_client_window(unsigned long address)
{
	return address >= ob_layout.client && address < ob_layout.client_end;
}

/* Pages that a client gets with one fault if it touches one page after the other. */
#define OB_FAULT_PAGES 8

/*
 * The client has written to the page at `address`, and before to the one that ends there. A fault
 * costs more than a page: the client gets the next ones, too, of its own memory that nobody has
 * touched yet. The mm is locked for reading.
 */
static void ob_client_fault_ahead(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long end = min3(address + OB_FAULT_PAGES * PAGE_SIZE, vma->vm_end,
				 ob_layout.client_end);

	while ((address += PAGE_SIZE) < end && ob_user_is_untouched(vma->vm_mm, address))
		if (handle_mm_fault(vma, address, FAULT_FLAG_WRITE, NULL) & VM_FAULT_ERROR)
			return;
}

/* The page fault handler, for a client or for a kernel access on its behalf. 0, or -EFAULT. */
static int ob_client_fault(const struct ob_fault *fault, bool user)
{
	unsigned long address = fault->address;
	bool write = fault->flags & OB_FAULT_WRITE;
	unsigned int flags = FAULT_FLAG_DEFAULT | (write ? FAULT_FLAG_WRITE : 0) |
			     (user ? FAULT_FLAG_USER : 0);
	struct mm_struct *mm = current->mm;
	struct pt_regs regs = { .ip = fault->instruction, .user = user };
	struct vm_area_struct *vma;
	/* What the last fault has shown ends here. */
	bool refused, in_sequence = write && current->thread.shown_end == (address & PAGE_MASK);
	vm_fault_t outcome;

	/* The window shows one mm: memory of another cannot be accessed by its address. */
	if (!mm || mm->context.space != &ob_local_space || faulthandler_disabled())
		return -EFAULT;
	ob_client_refill_begin();
	do {
		vma = lock_mm_and_find_vma(mm, address, &regs);
		if (!vma)
			return -EFAULT;
		if (!(vma->vm_flags & (write ? VM_WRITE : VM_ACCESS_FLAGS)) ||
		    (fault->flags & OB_FAULT_EXECUTE && !(vma->vm_flags & VM_EXEC))) {
			mmap_read_unlock(mm);
			return -EFAULT;
		}
		outcome = handle_mm_fault(vma, address, flags, NULL);
		if (fault_signal_pending(outcome, &regs))
			return user ? 0 : -EFAULT;
		if (outcome & VM_FAULT_COMPLETED)
			return 0;
		flags |= FAULT_FLAG_TRIED;
	} while (outcome & VM_FAULT_RETRY);
	refused = outcome & VM_FAULT_ERROR || ob_client_refill(mm, address);
	if (!refused && in_sequence && vma_is_anonymous(vma))
		ob_client_fault_ahead(vma, address & PAGE_MASK);
	mmap_read_unlock(mm);
	return refused ? -EFAULT : 0;
}

static long ob_client_fault_call(void *fault)
{
	return ob_client_fault(fault, true);
}

static bool ob_window_fault(struct ob_fault *fault, bool by_kernel)
{
	if (!ob_in_client_window(fault->address))
		return false;
	if (by_kernel)
		return !ob_client_fault(fault, false);
	/* Refused while the thread is in a call: a handler must not use its locks and its task. */
	return !ob_call(ob_client_fault_call, fault);
}
#else
static bool ob_window_fault(struct ob_fault *fault, bool by_kernel)
{
	return false;
}
#endif

/*
 * The platform uses memory of the kernel's windows, too. Not with interrupts off: then a handler of
 * the program may have interrupted code that holds the lock for filling them.
 */
static bool ob_may_fill(bool by_kernel)
{
	return by_kernel || (!ob_this_thread->irqs_off && ob_in_kernel());
}

/* Is the page there now? */
static bool ob_is_filled(struct ob_fault *fault, bool by_kernel)
{
	bool known = !(fault->flags & OB_FAULT_NO_ADDRESS);

	if (known && ob_may_fill(by_kernel) && ob_kernel_fill(fault))
		return true;
	if (by_kernel && (!ob_thread_is_known() || !current))
		ob_host_panic(ob_host, "bad memory access by kernel code outside of a task");
	return known && ob_window_fault(fault, by_kernel);
}

/* Then calls fail. But threads may run kernel code, also after the halt. */
static bool ob_has_no_clients(void)
{
	return READ_ONCE(ob_machine.stopping) ||
	       READ_ONCE(ob_machine.panicking) == OB_PANIC_REPORTED;
}

int ob_kernel_fault(struct ob_fault *fault)
{
	bool by_kernel;

	/* Nothing of ours is left, or this is a forked child, perhaps one that ran no hook. */
	if (READ_ONCE(ob_machine.gone) || !READ_ONCE(ob_boot))
		return 0;
	if (ob_has_no_clients() && !ob_is_kernel_code(fault->instruction))
		return 0;
	by_kernel = ob_is_by_kernel(fault);
	if (ob_is_filled(fault, by_kernel))
		return 1;
	if (!by_kernel)
		return 0;
	if (ob_fault_fixup(fault))
		return 1;
	ob_die("bad memory access", fault);
}
