/* SPDX-License-Identifier: GPL-2.0-only */
/* registers_keep() of registers.h. */
#define MASKS 2048
#define GENERAL 2112
#define RED_ZONE 2224
#define FLAGS 2352
#define X87 2360
#define X87_CONTROL 2370
#define MXCSR 2372

#define CHANGED_FLAGS 0xcd5		/* CF PF AF ZF SF DF OF */

	.text
	.globl registers_keep
	.type registers_keep, @function
registers_keep:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	push %rsi
	push %rdx
	push %rcx
	sub $24, %rsp
	stmxcsr (%rsp)
	fnstcw 4(%rsp)
	fninit
	fldt X87(%rdi)
	fldcw X87_CONTROL(%rdi)
	ldmxcsr MXCSR(%rdi)
	cmp $1, %ecx
	je 2f
	ja 3f
	.altmacro
	.macro load_128 n
	movdqa \n*64(%rdi), %xmm\n
	.endm
	.macro load_256 n
	vmovdqa \n*64(%rdi), %ymm\n
	.endm
	.macro load_512 n
	vmovdqa64 \n*64(%rdi), %zmm\n
	.endm
	.macro store_128 n
	movdqa %xmm\n, \n*64(%rsi)
	.endm
	.macro store_256 n
	vmovdqa %ymm\n, \n*64(%rsi)
	.endm
	.macro store_512 n
	vmovdqa64 %zmm\n, \n*64(%rsi)
	.endm
	.macro load_mask n
	kmovq MASKS+\n*8(%rdi), %k\n
	.endm
	.macro store_mask n
	kmovq %k\n, MASKS+\n*8(%rsi)
	.endm
	.macro load_red n
	mov RED_ZONE+\n*8(%rdi), %rax
	mov %rax, -128+\n*8(%rsp)
	.endm
	.macro store_red n
	mov -128+\n*8(%rsp), %rax
	mov %rax, RED_ZONE+\n*8(%rsi)
	.endm
	/* each MACRO, FROM, TO */
	.macro each what, n, last
	\what \n
	.if \n-\last
	each \what, %(\n+1), \last
	.endif
	.endm

	each load_128, 0, 15
	jmp 4f
2:	each load_256, 0, 15
	jmp 4f
3:	each load_512, 0, 31
	each load_mask, 0, 7
4:	each load_red, 0, 15
	/* The flags: popf with the stack as it is would need the red zone. */
	sub $136, %rsp
	pushf
	pop %rax
	and $~CHANGED_FLAGS, %rax
	or FLAGS(%rdi), %rax
	push %rax
	mov GENERAL+0(%rdi), %rax
	mov GENERAL+8(%rdi), %rbx
	mov GENERAL+16(%rdi), %rcx
	mov GENERAL+24(%rdi), %rdx
	mov GENERAL+32(%rdi), %rsi
	mov GENERAL+40(%rdi), %r8
	mov GENERAL+48(%rdi), %r9
	mov GENERAL+56(%rdi), %r10
	mov GENERAL+64(%rdi), %r11
	mov GENERAL+72(%rdi), %r12
	mov GENERAL+80(%rdi), %r13
	mov GENERAL+88(%rdi), %r14
	mov GENERAL+96(%rdi), %r15
	mov GENERAL+104(%rdi), %rbp
	popf
	lea 136(%rsp), %rsp
	/* Turns: in memory, so that no register changes. rcx is saved and comes back. */
5:	xchg %rcx, 32(%rsp)
	lea -1(%rcx), %rcx
	jrcxz 6f
	xchg %rcx, 32(%rsp)
	jmp 5b
6:	xchg %rcx, 32(%rsp)
	lea -136(%rsp), %rsp
	pushf
	push %rsi
	mov 136+16+40(%rsp), %rsi
	mov %rax, GENERAL+0(%rsi)
	pop %rax
	mov %rax, GENERAL+32(%rsi)
	pop %rax
	cld
	mov %rax, FLAGS(%rsi)
	lea 136(%rsp), %rsp
	mov %rbx, GENERAL+8(%rsi)
	mov %rcx, GENERAL+16(%rsi)
	mov %rdx, GENERAL+24(%rsi)
	mov %r8, GENERAL+40(%rsi)
	mov %r9, GENERAL+48(%rsi)
	mov %r10, GENERAL+56(%rsi)
	mov %r11, GENERAL+64(%rsi)
	mov %r12, GENERAL+72(%rsi)
	mov %r13, GENERAL+80(%rsi)
	mov %r14, GENERAL+88(%rsi)
	mov %r15, GENERAL+96(%rsi)
	mov %rbp, GENERAL+104(%rsi)
	each store_red, 0, 15
	mov 24(%rsp), %rcx
	cmp $1, %ecx
	je 2f
	ja 3f
	each store_128, 0, 15
	jmp 4f
2:	each store_256, 0, 15
	vzeroupper
	jmp 4f
3:	each store_512, 0, 31
	each store_mask, 0, 7
	vzeroupper
4:	stmxcsr MXCSR(%rsi)
	fnstcw X87_CONTROL(%rsi)
	fstpt X87(%rsi)
	fninit
	ldmxcsr (%rsp)
	fldcw 4(%rsp)
	add $24, %rsp
	pop %rcx
	pop %rdx
	pop %rsi
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.size registers_keep, . - registers_keep
	.section .note.GNU-stack, "", @progbits
