/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copying to and from client memory, any size. Both functions return how many
 * bytes were not done: 0 unless an access faulted. Only client memory faults.
 */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/extable.h>

	.text

/* unsigned long ob_copy(void *to, const void *from, unsigned long size) */
SYM_FUNC_START(ob_copy)
	movq %rdx, %rcx
	cmpq $256, %rdx
	jae 5f
	shrq $3, %rcx
	andl $7, %edx
	testq %rcx, %rcx
	jz 3f
1:	movq (%rsi), %rax
2:	movq %rax, (%rdi)
	addq $8, %rsi
	addq $8, %rdi
	decq %rcx
	jnz 1b
3:	movl %edx, %ecx
	/* fewer than eight bytes are left */
5:	rep movsb
6:	movq %rcx, %rax
	ret
7:	/* a word faulted: its bytes and those behind it, one by one as far as they go */
	leaq (%rdx,%rcx,8), %rcx
	jmp 5b
SYM_FUNC_END(ob_copy)
	OB_EXTABLE(1b, 7b)
	OB_EXTABLE(2b, 7b)
	OB_EXTABLE(5b, 6b)
EXPORT_SYMBOL(ob_copy)

/* unsigned long ob_zero(void *to, unsigned long size) */
SYM_FUNC_START(ob_zero)
	movq %rsi, %rcx
	xorl %eax, %eax
1:	rep stosb
2:	movq %rcx, %rax
	ret
SYM_FUNC_END(ob_zero)
	OB_EXTABLE(1b, 2b)
EXPORT_SYMBOL(ob_zero)
