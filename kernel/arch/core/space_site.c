// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewritten call sites: a program's system call without a trap. After some traps have proven what
 * the code of a call is (space_site_proof.c), a jump to a trampoline replaces the instruction
 * before `syscall`. The trampoline jumps to code of the platform (ob_host_space_calls()):
 *
 *   the program's code                            trampoline, in the mapping [calls]
 *   site:      mov $number, %eax --> jmp start    start:      mov $number, %eax
 *   site + 5:  syscall                                        lea gate(%rip), %rcx
 *   site + 7:  ...                                            jmp *entry(%rip)
 *                                                 gate:       struct ob_space_call
 *                                                 entry:      the platform's code
 *
 * The instruction `syscall` stays: a jump to it, a call that is restarted or refused, and a thread
 * between the two instructions, make the call by a trap. So a program may be at three places:
 *
 *   ip, when user code stops     its registers are those of a program at
 *   start                        site
 *   in the trampoline behind     site + 5
 *   in the platform's code       site + 5; the platform reports ip as that of the gate
 *
 * ob_sites_leave() puts ip there before anything sees it. So no signal frame, debugger or core dump
 * has an address of a trampoline.
 *
 * A rewritten page is the program's own copy of a private mapping, never the page cache. Code that
 * the program may write itself is left alone, and so are the programs of a debugger. A program that
 * moves code, or unmaps trampolines, makes its calls by traps from then on: another thread of it
 * may be about to have a site rewritten.
 *
 *   bytes are seen by                            which are
 *   the program itself                           the jump (docs/caveats.md)
 *   /proc/PID/mem                                its own: ob_sites_read()
 *   a debugger; a core dump; process_vm_readv    its own: sites are restored first
 *   a copy by fork()                             the same, with trampolines of its own
 *   mremap() of the code, or an unmapping of     its own: sites are restored first
 *   the trampolines
 *
 * Lock: the mmap lock, for writing where anything changes. The list of an mm only grows, and new
 * sites are counted last: a task of the program reads it without a lock.
 *
 * While bytes are written, the space does not show the page, and faults wait for the mmap lock. So
 * no thread runs half of a jump. An unmapping has the host interrupt all processors that run code
 * of the space: they fetch the new bytes.
 */
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <asm/host.h>
#include <asm/mmu_context.h>
#include <outboard/hypercall_spaces.h>
#include "space.h"
#include "space_site.h"

/* A trampoline. */
#define OB_TRAMPOLINE_BYTES 64
#define OB_LOAD_AT OB_SITE_JUMP
#define OB_JUMP_AT (OB_LOAD_AT + 7)
#define OB_GATE_AT 32
#define OB_ENTRY_AT 48
#define OB_TRAMPOLINES (PAGE_SIZE / OB_TRAMPOLINE_BYTES)

/* Pages of trampolines of one program. */
#define OB_PAGES_MOST 8
/* A jump reaches 2 GB. */
#define OB_REACH (SZ_2G - SZ_1M)

struct ob_site {
	unsigned long address;
	u8 own[OB_SITE_JUMP], jump[OB_SITE_JUMP];
};

/* A page of trampolines, and the sites that have them. */
struct ob_sites {
	struct ob_sites *next;
	unsigned long start;		/* its address in the program */
	struct page *page;
	bool is_gone;			/* the program has unmapped it; what is there is not ours */
	bool are_rewritten;		/* some of them, perhaps */
	unsigned int count;
	struct ob_site sites[OB_TRAMPOLINES];
};

/* The address of the platform's code; 0: no call is rewritten. */
static unsigned long ob_calls_entry;

/* "rewrite_calls=0" on the command line: no call is rewritten. */
static bool ob_calls_are_rewritten = true;

static int __init ob_rewrite_set(char *value)
{
	return !kstrtobool(value, &ob_calls_are_rewritten);
}
__setup("rewrite_calls=", ob_rewrite_set);

/* Before a program is executed. */
void ob_sites_setup(void)
{
	u64 entry;

	if (!ob_calls_are_rewritten || READ_ONCE(ob_calls_entry))
		return;
	if (!ob_host_space_calls(ob_host, &entry))
		WRITE_ONCE(ob_calls_entry, entry);
}

bool ob_sites_are_possible(void)
{
	return READ_ONCE(ob_calls_entry);
}

/* ---- lists ---------------------------------------------------------------- */

/* The list of one mm. */
struct ob_site_list {
	struct hlist_node node;
	struct mm_struct *mm;
	struct ob_sites *first;
	bool is_over;			/* no more calls are rewritten */
	struct rcu_head rcu;
};

#define OB_LIST_BITS 8
static struct hlist_head ob_site_lists[1 << OB_LIST_BITS];
static DEFINE_SPINLOCK(ob_site_lists_lock);

static struct hlist_head *ob_bucket_of(const struct mm_struct *mm)
{
	return &ob_site_lists[hash_ptr(mm, OB_LIST_BITS)];
}

/* It stays as long as somebody uses the mm. NULL: there is none. */
static struct ob_site_list *ob_site_list_of(const struct mm_struct *mm)
{
	struct ob_site_list *list, *found = NULL;

	rcu_read_lock();
	hlist_for_each_entry_rcu(list, ob_bucket_of(mm), node)
		if (list->mm == mm)
			found = list;
	rcu_read_unlock();
	return found;
}

/* Or makes it. The mm is locked for writing. NULL: there is no memory. */
static struct ob_site_list *ob_site_list_make(struct mm_struct *mm)
{
	struct ob_site_list *list = ob_site_list_of(mm);

	if (list)
		return list;
	list = kzalloc(sizeof(*list), GFP_KERNEL_ACCOUNT);
	if (!list)
		return NULL;
	list->mm = mm;
	spin_lock(&ob_site_lists_lock);
	hlist_add_head_rcu(&list->node, ob_bucket_of(mm));
	spin_unlock(&ob_site_lists_lock);
	return list;
}

static struct ob_sites *ob_sites_first(const struct mm_struct *mm)
{
	struct ob_site_list *list = ob_site_list_of(mm);

	return list ? smp_load_acquire(&list->first) : NULL;
}

#define ob_for_each_page(sites, mm)						\
	for (sites = ob_sites_first(mm); sites; sites = smp_load_acquire(&(sites)->next))

/* The page of trampolines at an address; NULL: there is none. */
static struct ob_sites *ob_sites_at(struct mm_struct *mm, unsigned long address)
{
	struct ob_sites *sites;

	ob_for_each_page(sites, mm)
		if (address - sites->start < PAGE_SIZE && !READ_ONCE(sites->is_gone))
			return sites;
	return NULL;
}

static void ob_sites_free(struct ob_sites *sites)
{
	if (!sites)
		return;
	if (sites->page)
		put_page(sites->page);
	kfree(sites);
}

static struct ob_sites *ob_sites_alloc(void)
{
	struct ob_sites *sites = kzalloc(sizeof(*sites), GFP_KERNEL_ACCOUNT);

	if (!sites)
		return NULL;
	sites->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (sites->page)
		return sites;
	kfree(sites);
	return NULL;
}

/* By fork(). Both are locked. 0, or -ENOMEM. */
int ob_sites_copy(struct mm_struct *old, struct mm_struct *mm)
{
	struct ob_site_list *from = ob_site_list_of(old), *list;
	struct ob_sites **place, *sites;

	if (!from)
		return 0;
	list = ob_site_list_make(mm);
	if (!list)
		return -ENOMEM;
	list->is_over = from->is_over;
	place = &list->first;
	for (sites = from->first; sites; sites = sites->next) {
		struct ob_sites *copy = ob_sites_alloc();
		struct page *page;

		if (!copy)
			return -ENOMEM;
		page = copy->page;
		*copy = *sites;
		copy->next = NULL;
		copy->page = page;
		copy_page(page_address(page), page_address(sites->page));
		*place = copy;
		place = &copy->next;
	}
	return 0;
}

/* No task has the mm any more. */
void ob_sites_end(struct mm_struct *mm)
{
	struct ob_site_list *list = ob_site_list_of(mm);
	struct ob_sites *sites, *next;

	if (likely(!list))
		return;
	spin_lock(&ob_site_lists_lock);
	hlist_del_rcu(&list->node);
	spin_unlock(&ob_site_lists_lock);
	for (sites = list->first; sites; sites = next) {
		next = sites->next;
		ob_sites_free(sites);
	}
	kfree_rcu(list, rcu);
}

/* ---- bytes of the program ------------------------------------------------- */

/* A write makes a copy that is the program's own. */
static bool ob_is_private(const struct vm_area_struct *vma)
{
	const vm_flags_t unwanted = VM_SHARED | VM_MAYSHARE | VM_PFNMAP | VM_IO;

	return vma && (vma->vm_flags & (VM_MAYWRITE | unwanted)) == VM_MAYWRITE;
}

/* Code of a file, which the program itself cannot write. */
static bool ob_is_code(const struct vm_area_struct *vma)
{
	return ob_is_private(vma) && vma->vm_file &&
	       (vma->vm_flags & (VM_EXEC | VM_WRITE)) == VM_EXEC;
}

/* The page of the program's code; NULL: there is none. The caller puts it. */
static struct page *ob_code_page(struct mm_struct *mm, unsigned long address, unsigned int flags)
{
	struct page *page;

	if (get_user_pages_remote(mm, address, 1, flags | FOLL_FORCE, &page, NULL) != 1)
		return NULL;
	return page;
}

static bool ob_code_is(struct mm_struct *mm, unsigned long address, const u8 *bytes)
{
	struct page *page = ob_code_page(mm, address, 0);
	bool is_same;

	if (!page)
		return false;
	is_same = !memcmp(page_address(page) + offset_in_page(address), bytes, OB_SITE_JUMP);
	put_page(page);
	return is_same;
}

/* Replaces the bytes `old` if they are there. Returns whether they were. */
static bool ob_code_replace(struct mm_struct *mm, unsigned long address, const u8 *old,
			    const u8 *bytes)
{
	struct page *page;

	if (!ob_is_private(vma_lookup(mm, address)) || !ob_code_is(mm, address, old))
		return false;
	page = ob_code_page(mm, address, FOLL_WRITE);
	if (!page)
		return false;
	ob_space_hide(mm, address, address + OB_SITE_JUMP);
	memcpy(page_address(page) + offset_in_page(address), bytes, OB_SITE_JUMP);
	set_page_dirty_lock(page);
	put_page(page);
	return true;
}

/* The program's code is as it was. The caller has locked the mm for writing. */
static void ob_sites_restore_locked(struct mm_struct *mm)
{
	struct ob_sites *sites;
	unsigned int i;

	ob_for_each_page(sites, mm) {
		if (!sites->are_rewritten)
			continue;
		for (i = 0; i < sites->count; i++)
			ob_code_replace(mm, sites->sites[i].address, sites->sites[i].jump,
					sites->sites[i].own);
		WRITE_ONCE(sites->are_rewritten, false);
	}
}

static bool ob_sites_are_rewritten(struct mm_struct *mm)
{
	struct ob_sites *sites;

	ob_for_each_page(sites, mm)
		if (READ_ONCE(sites->are_rewritten))
			return true;
	return false;
}

/* The same; the caller has not locked the mm. May sleep. */
void ob_sites_restore(struct mm_struct *mm)
{
	if (!ob_sites_are_rewritten(mm))
		return;
	mmap_write_lock(mm);
	ob_sites_restore_locked(mm);
	mmap_write_unlock(mm);
}

/* Whether a change of mappings there meets a site, or a trampoline. */
static void ob_sites_meet(struct mm_struct *mm, unsigned long start, unsigned long size,
			  bool *site, bool *trampoline)
{
	struct ob_sites *sites;
	unsigned int i;

	*site = *trampoline = false;
	ob_for_each_page(sites, mm) {
		if (!READ_ONCE(sites->is_gone))
			*trampoline |= start < sites->start + PAGE_SIZE &&
				sites->start - start < size;
		for (i = 0; i < smp_load_acquire(&sites->count); i++)
			*site |= sites->sites[i].address - start < size;
	}
}

static bool ob_code_is_at(struct mm_struct *mm, unsigned long address)
{
	bool is_code;

	mmap_read_lock(mm);
	is_code = ob_is_code(vma_lookup(mm, address));
	mmap_read_unlock(mm);
	return is_code;
}

/* No call of the program is rewritten from now on. Without memory for this, it has no site. */
static void ob_sites_stop(struct mm_struct *mm)
{
	struct ob_site_list *list;

	mmap_write_lock(mm);
	list = ob_site_list_make(mm);
	if (list)
		list->is_over = true;
	ob_sites_restore_locked(mm);
	mmap_write_unlock(mm);
}

/* The calling program is about to change its mappings there. `moves`: to another address. */
void ob_sites_change(unsigned long start, unsigned long size, bool moves)
{
	struct mm_struct *mm = current->mm;
	bool site, trampoline;

	if (!ob_sites_are_possible())
		return;
	ob_sites_meet(mm, start, size, &site, &trampoline);
	if (trampoline || (moves && ob_code_is_at(mm, start)))
		ob_sites_stop(mm);
	else if (site)
		ob_sites_restore(mm);
}

/* Whether an access to `page` meets a site that is rewritten there. */
static bool ob_site_meets(const struct ob_site *site, unsigned long address, unsigned long size,
			  const void *page)
{
	return (site->address & PAGE_MASK) == (address & PAGE_MASK) &&
	       site->address < address + size && address < site->address + OB_SITE_JUMP &&
	       !memcmp(page + offset_in_page(site->address), site->jump, OB_SITE_JUMP);
}

/* Another process reads. The mm is locked. The access is within a page. */
void ob_sites_read(struct vm_area_struct *vma, unsigned long address, void *to, const void *from,
		   unsigned long size)
{
	const void *page = from - offset_in_page(address);
	struct ob_sites *sites;
	unsigned int i;

	memcpy(to, from, size);
	ob_for_each_page(sites, vma->vm_mm)
		for (i = 0; i < sites->count; i++) {
			const struct ob_site *site = &sites->sites[i];
			unsigned long start = max(address, site->address);
			unsigned long end = min(address + size, site->address + OB_SITE_JUMP);

			if (ob_site_meets(site, address, size, page))
				memcpy(to + (start - address), site->own + (start - site->address),
				       end - start);
		}
}

/* Another process writes, perhaps a part of a site only. Its own bytes come back first. */
void ob_sites_write(struct vm_area_struct *vma, unsigned long address, void *to, const void *from,
		    unsigned long size)
{
	void *page = to - offset_in_page(address);
	struct ob_sites *sites;
	unsigned int i;

	ob_for_each_page(sites, vma->vm_mm)
		for (i = 0; i < sites->count; i++) {
			const struct ob_site *site = &sites->sites[i];

			if (!ob_site_meets(site, address, size, page))
				continue;
			ob_space_hide(vma->vm_mm, address, address + size);
			memcpy(page + offset_in_page(site->address), site->own, OB_SITE_JUMP);
		}
	memcpy(to, from, size);
}

/* ---- trampolines ---------------------------------------------------------- */

static vm_fault_t ob_calls_fault(const struct vm_special_mapping *mapping,
				 struct vm_area_struct *vma, struct vm_fault *fault)
{
	struct ob_sites *sites = ob_sites_at(vma->vm_mm, fault->address);

	if (!sites)
		return VM_FAULT_SIGBUS;
	get_page(sites->page);
	fault->page = sites->page;
	return 0;
}

/* Jumps lead here. */
static int ob_calls_mremap(const struct vm_special_mapping *mapping, struct vm_area_struct *vma)
{
	return -EINVAL;
}

/* By all that unmaps, with the mm locked for writing. */
static void ob_calls_close(const struct vm_special_mapping *mapping, struct vm_area_struct *vma)
{
	struct ob_sites *sites = ob_sites_at(vma->vm_mm, vma->vm_start);

	if (sites)
		WRITE_ONCE(sites->is_gone, true);
}

static const struct vm_special_mapping ob_calls_mapping = {
	.name = "[calls]",
	.fault = ob_calls_fault,
	.mremap = ob_calls_mremap,
	.close = ob_calls_close,
};

/*
 * The next free page where no mapping of the program would come: its addresses do not depend on
 * when calls are rewritten. For libraries that is above mmap_base, which is farther from the stack
 * than the stack may grow, and for the program itself below the code.
 */
static unsigned long ob_calls_place(const struct mm_struct *mm, const struct vm_area_struct *code)
{
	struct vm_unmapped_area_info info = { .length = PAGE_SIZE };

	if (test_bit(MMF_TOPDOWN, &mm->flags) && code->vm_start + OB_REACH > mm->mmap_base) {
		info.low_limit = PAGE_ALIGN(max(mm->mmap_base, code->vm_end));
		info.high_limit = min(mm->task_size, code->vm_start + OB_REACH);
	} else {
		info.flags = VM_UNMAPPED_AREA_TOPDOWN;
		info.low_limit = max(mmap_min_addr, (unsigned long)SZ_64K);
		info.high_limit = code->vm_start;
		if (code->vm_end > OB_REACH)
			info.low_limit = max(info.low_limit, PAGE_ALIGN(code->vm_end - OB_REACH));
	}
	if (info.low_limit + PAGE_SIZE > info.high_limit)
		return -ENOMEM;
	return vm_unmapped_area(&info);
}

/* A new page of trampolines in reach of the code. The mm is locked for writing. NULL: none. */
static struct ob_sites *ob_sites_add(struct mm_struct *mm, const struct vm_area_struct *code)
{
	const vm_flags_t flags = VM_READ | VM_EXEC | VM_MAYREAD | VM_MAYEXEC | VM_DONTDUMP;
	struct ob_site_list *list = ob_site_list_make(mm);
	struct ob_sites **place = list ? &list->first : NULL, *sites;
	struct vm_area_struct *vma;
	unsigned int count;

	for (count = 0; place && *place; count++)
		place = &(*place)->next;
	sites = place && count < OB_PAGES_MOST ? ob_sites_alloc() : NULL;
	if (!sites)
		return NULL;
	sites->start = ob_calls_place(mm, code);
	vma = IS_ERR_VALUE(sites->start) ? ERR_PTR(-ENOMEM) :
		_install_special_mapping(mm, sites->start, PAGE_SIZE, flags, &ob_calls_mapping);
	if (IS_ERR(vma)) {
		ob_sites_free(sites);
		return NULL;
	}
	smp_store_release(place, sites);
	return sites;
}

static bool ob_reaches(unsigned long start, unsigned long site)
{
	return start - site + OB_REACH < 2UL * OB_REACH;
}

/* A page with room for one more. */
static struct ob_sites *ob_sites_with_room(struct mm_struct *mm, const struct vm_area_struct *code,
					   unsigned long site)
{
	struct ob_sites *sites;

	ob_for_each_page(sites, mm)
		if (sites->count < OB_TRAMPOLINES && ob_reaches(sites->start, site))
			return sites;
	sites = ob_sites_add(mm, code);
	return sites && ob_reaches(sites->start, site) ? sites : NULL;
}

static void ob_trampoline_write(u8 *at, unsigned long site, const u8 *own)
{
	const struct ob_space_call gate = {
		.back = site + OB_SITE_BYTES,
		.refused = site + OB_SITE_JUMP,
	};

	memset(at, 0xcc, OB_TRAMPOLINE_BYTES);
	memcpy(at, own, OB_SITE_JUMP);
	memcpy(at + OB_LOAD_AT, (u8[]) { 0x48, 0x8d, 0x0d }, 3);
	put_unaligned((s32)(OB_GATE_AT - OB_JUMP_AT), (s32 *)(at + OB_LOAD_AT + 3));
	memcpy(at + OB_JUMP_AT, (u8[]) { 0xff, 0x25 }, 2);
	put_unaligned((s32)(OB_ENTRY_AT - OB_JUMP_AT - 6), (s32 *)(at + OB_JUMP_AT + 2));
	memcpy(at + OB_GATE_AT, &gate, sizeof(gate));
	put_unaligned(ob_calls_entry, (unsigned long *)(at + OB_ENTRY_AT));
}

/* Makes a trampoline. Returns its site, which is not rewritten yet. */
static const struct ob_site *ob_site_add(struct ob_sites *sites, unsigned long address,
					 const u8 *own)
{
	const unsigned int offset = sites->count * OB_TRAMPOLINE_BYTES;
	struct ob_site *site = &sites->sites[sites->count];

	ob_trampoline_write(page_address(sites->page) + offset, address, own);
	site->address = address;
	memcpy(site->own, own, OB_SITE_JUMP);
	site->jump[0] = 0xe9;
	put_unaligned((s32)(sites->start + offset - address - OB_SITE_JUMP),
		      (s32 *)(site->jump + 1));
	smp_store_release(&sites->count, sites->count + 1);
	return site;
}

/* The site that has a trampoline already. */
static const struct ob_site *ob_site_find(struct mm_struct *mm, unsigned long address,
					  struct ob_sites **sites)
{
	unsigned int i;

	ob_for_each_page(*sites, mm)
		for (i = 0; i < (*sites)->count; i++)
			if ((*sites)->sites[i].address == address)
				return &(*sites)->sites[i];
	return NULL;
}

static bool ob_is_debugged(const struct mm_struct *mm)
{
	struct task_struct *process, *task;
	bool is_debugged = false;

	rcu_read_lock();
	for_each_process_thread(process, task)
		is_debugged |= READ_ONCE(task->mm) == mm && READ_ONCE(task->ptrace);
	rcu_read_unlock();
	return is_debugged;
}

/* `own`: the bytes that are there. The mm is locked for writing. */
static void ob_site_rewrite_locked(struct mm_struct *mm, unsigned long address, const u8 *own)
{
	const struct vm_area_struct *code = vma_lookup(mm, address);
	const struct ob_site_list *list = ob_site_list_of(mm);
	const struct ob_site *site;
	struct ob_sites *sites;

	if (!ob_is_code(code) || ob_is_debugged(mm) || (list && list->is_over))
		return;
	site = ob_site_find(mm, address, &sites);
	if (site && memcmp(site->own, own, OB_SITE_JUMP))
		return;
	if (!site) {
		sites = ob_sites_with_room(mm, code, address);
		if (!sites)
			return;
		site = ob_site_add(sites, address, own);
	}
	WRITE_ONCE(sites->are_rewritten, true);
	ob_code_replace(mm, address, site->own, site->jump);
}

/* Of the calling program, which must have proven that these bytes are one instruction. */
void ob_site_rewrite(unsigned long address, const u8 *own)
{
	struct mm_struct *mm = current->mm;

	if (offset_in_page(address) + OB_SITE_BYTES > PAGE_SIZE || mmap_write_lock_killable(mm))
		return;
	ob_site_rewrite_locked(mm, address, own);
	mmap_write_unlock(mm);
}

/*
 * User code of the calling task has stopped, and not by a call. If that was in a trampoline, it is
 * at its site. A program that runs step by step does so through its own code.
 */
void ob_sites_leave(struct pt_regs *regs, struct ob_space_event *event)
{
	struct ob_sites *sites = ob_sites_at(current->mm, regs->ip);
	unsigned int offset = offset_in_page(regs->ip);
	const struct ob_site *site;

	if (likely(!sites) || offset / OB_TRAMPOLINE_BYTES >= smp_load_acquire(&sites->count))
		return;
	site = &sites->sites[offset / OB_TRAMPOLINE_BYTES];
	if (offset % OB_TRAMPOLINE_BYTES) {
		regs->ip = site->address + OB_SITE_JUMP;
		return;
	}
	regs->ip = site->address;
	if (event->kind == OB_SPACE_TRAP && event->vector == 1) {
		ob_sites_restore(current->mm);
		event->kind = OB_SPACE_INTERRUPTED;
	}
}
