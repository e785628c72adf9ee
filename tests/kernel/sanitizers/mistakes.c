// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes one mistake, that which the parameter "how" names, for KASAN or UBSAN to report; or "none".
 * The mistakes hit nothing that anybody uses, so that the kernel goes on after all of them.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

static char *how = "";
module_param(how, charp, 0);

#define SLAB_BYTES 100
#define VMALLOC_BYTES (3 * PAGE_SIZE + 100)

/* The compiler must not know these values. */
static volatile int number;
static char global[20];

static void no_mistake(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL), *area = vmalloc(VMALLOC_BYTES);

	if (slab)
		memset(slab, 1, SLAB_BYTES);
	if (area)
		memset(area, 1, VMALLOC_BYTES);
	vfree(area);
	kfree(slab);
}

static void slab_overflow(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(slab);
	if (slab)
		number = READ_ONCE(slab[SLAB_BYTES]);
	kfree(slab);
}

static void slab_copy(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL), copy[SLAB_BYTES + 1];
	size_t size = sizeof(copy);

	OPTIMIZER_HIDE_VAR(slab);
	OPTIMIZER_HIDE_VAR(size);
	if (slab)
		memcpy(copy, slab, size);
	number = copy[SLAB_BYTES];
	kfree(slab);
}

static void slab_string(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(slab);
	if (!slab)
		return;
	memset(slab, 'x', SLAB_BYTES);
	number = (int)strlen(slab);
	kfree(slab);
}

static void use_after_free(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL);

	kfree(slab);
	OPTIMIZER_HIDE_VAR(slab);
	if (slab)
		number = READ_ONCE(slab[SLAB_BYTES / 2]);
}

static void double_free(void)
{
	char *slab = kmalloc(SLAB_BYTES, GFP_KERNEL), *again = slab;

	OPTIMIZER_HIDE_VAR(again);
	kfree(slab);
	kfree(again);
}

static void page_after_free(void)
{
	char *page = (char *)__get_free_page(GFP_KERNEL);

	if (!page)
		return;
	free_page((unsigned long)page);
	number = READ_ONCE(*page);
}

static void vmalloc_overflow(void)
{
	char *area = vmalloc(VMALLOC_BYTES);

	OPTIMIZER_HIDE_VAR(area);
	if (area)
		number = READ_ONCE(area[VMALLOC_BYTES]);
	vfree(area);
}

static void global_overflow(void)
{
	char *start = global;

	OPTIMIZER_HIDE_VAR(start);
	number = READ_ONCE(start[sizeof(global) + 1]);
}

static void array_index(void)
{
	int array[4] = {}, index = number + 4;

	number = array[index];
}

static void shift_too_far(void)
{
	number = 1 << (number + 40);
}

static void not_a_bool(void)
{
	union {
		char byte;
		bool truth;
	} value;

	value.byte = (char)(number + 7);
	barrier_data(&value);
	number = value.truth;
}

static const struct {
	const char *name;
	void (*make)(void);
} mistakes[] = {
	{ "none", no_mistake },
	{ "slab-overflow", slab_overflow },
	{ "slab-copy", slab_copy },
	{ "slab-string", slab_string },
	{ "use-after-free", use_after_free },
	{ "double-free", double_free },
	{ "page-after-free", page_after_free },
	{ "vmalloc-overflow", vmalloc_overflow },
	{ "global-overflow", global_overflow },
	{ "array-index", array_index },
	{ "shift", shift_too_far },
	{ "bool", not_a_bool },
};

static int __init mistakes_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (!strcmp(mistakes[i].name, how)) {
			mistakes[i].make();
			return 0;
		}
	}
	return -EINVAL;
}
module_init(mistakes_init);

static void __exit mistakes_exit(void)
{
}
module_exit(mistakes_exit);

MODULE_DESCRIPTION("Outboard test: what sanitizers report");
MODULE_LICENSE("GPL");
