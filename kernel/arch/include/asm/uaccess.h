/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Access to user memory. Clients share our address space, so an access is a plain one; a bad
 * pointer makes the host report a fault, and the exception table then turns it into -EFAULT (V10).
 * A program has an address space of its own: its memory is reached by the page tables (V16).
 */
#ifndef _ASM_OUTBOARD_UACCESS_H
#define _ASM_OUTBOARD_UACCESS_H

#include <linux/sched.h>
#include <linux/string.h>
#include <asm/extable.h>

/* Any size; both return the number of bytes that were not done. core/uaccess.S */
unsigned long ob_copy(void *to, const void *from, unsigned long size);
unsigned long ob_zero(void *to, unsigned long size);

#define OB_ACCESS(type, move, to_constraint, to, from_constraint, from, error)	\
	asm volatile("1:	" move "\n"					\
		     "2:\n"							\
		     ".pushsection .fixup, \"ax\"\n"				\
		     "3:	movl %[fault], %[err]\n"			\
		     "	jmp 2b\n"						\
		     ".popsection\n"						\
		     OB_EXTABLE(1b, 3b)						\
		     : [err] "+r" (error), to_constraint (to)			\
		     : from_constraint (from), [fault] "i" (-EFAULT))

static __always_inline int ob_load(void *to, const void *from, unsigned long size)
{
	int error = 0;

	switch (size) {
	case 1: {
		u8 value = 0;
		OB_ACCESS(u8, "movb %2, %1", "+q", value, "m", *(const u8 *)from, error);
		*(u8 *)to = value;
		break;
	}
	case 2: {
		u16 value = 0;
		OB_ACCESS(u16, "movw %2, %1", "+r", value, "m", *(const u16 *)from, error);
		memcpy(to, &value, 2);
		break;
	}
	case 4: {
		u32 value = 0;
		OB_ACCESS(u32, "movl %2, %1", "+r", value, "m", *(const u32 *)from, error);
		memcpy(to, &value, 4);
		break;
	}
	case 8: {
		u64 value = 0;
		OB_ACCESS(u64, "movq %2, %1", "+r", value, "m", *(const u64 *)from, error);
		memcpy(to, &value, 8);
		break;
	}
	}
	return error;
}

static __always_inline int ob_store(void *to, const void *from, unsigned long size)
{
	int error = 0;

	switch (size) {
	case 1:
		OB_ACCESS(u8, "movb %2, %1", "+m", *(u8 *)to, "q", *(const u8 *)from, error);
		break;
	case 2: {
		u16 value;
		memcpy(&value, from, 2);
		OB_ACCESS(u16, "movw %2, %1", "+m", *(u16 *)to, "r", value, error);
		break;
	}
	case 4: {
		u32 value;
		memcpy(&value, from, 4);
		OB_ACCESS(u32, "movl %2, %1", "+m", *(u32 *)to, "r", value, error);
		break;
	}
	case 8: {
		u64 value;
		memcpy(&value, from, 8);
		OB_ACCESS(u64, "movq %2, %1", "+m", *(u64 *)to, "r", value, error);
		break;
	}
	}
	return error;
}

#define OB_IS_WORD(size)							\
	(__builtin_constant_p(size) &&						\
	 ((size) == 1 || (size) == 2 || (size) == 4 || (size) == 8))

/* core/space_access.c. Both return the number of bytes that were not done. */
unsigned long ob_program_read(void *to, unsigned long from, unsigned long size);
unsigned long ob_program_write(unsigned long to, const void *from, unsigned long size);

#ifdef CONFIG_MMU
#define ob_is_apart() unlikely(current->thread.apart)
#else
#define ob_is_apart() false
#endif

static __always_inline unsigned long __must_check
raw_copy_from_user(void *to, const void __user *from, unsigned long size)
{
	if (ob_is_apart())
		return ob_program_read(to, (unsigned long)from, size);
	if (OB_IS_WORD(size))
		return ob_load(to, (const void __force *)from, size) ? size : 0;
	return ob_copy(to, (const void __force *)from, size);
}

static __always_inline unsigned long __must_check
raw_copy_to_user(void __user *to, const void *from, unsigned long size)
{
	if (ob_is_apart())
		return ob_program_write((unsigned long)to, from, size);
	if (OB_IS_WORD(size))
		return ob_store((void __force *)to, from, size) ? size : 0;
	return ob_copy((void __force *)to, from, size);
}

#define INLINE_COPY_FROM_USER
#define INLINE_COPY_TO_USER

static inline unsigned long __must_check __clear_user(void __user *to, unsigned long size)
{
	if (ob_is_apart())
		return ob_program_write((unsigned long)to, NULL, size);
	return ob_zero((void __force *)to, size);
}
#define __clear_user __clear_user

#define __get_kernel_nofault(to, from, type, label)				\
do {										\
	if (ob_load((to), (from), sizeof(type)))				\
		goto label;							\
} while (0)

#define __put_kernel_nofault(to, from, type, label)				\
do {										\
	if (ob_store((to), (from), sizeof(type)))				\
		goto label;							\
} while (0)

#include <asm-generic/uaccess.h>
#endif
