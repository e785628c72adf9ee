/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All code of the zygote and the stubs, one page that runs at any address, without a stack.
 *
 * It is also an ELF file: execve() of it starts the zygote. The code knows two things.
 *
 * (1) To carry out a list of orders in its door: r12 is the order, rbx the door, r13 the last
 * request. An order whose result is not the expected one continues at the order that it names for
 * this. A new process or thread continues with a list of its own.
 *
 * (2) To be the handler of a thread that runs user code. The host's signal frame, on the stack in
 * the slot, holds the registers. `state` is that in the door, `done` that in the slot:
 *
 *   state            meaning                                  the handler
 *   n << 1 | 1       user code of entry n may run             reports n in `done`, then waits for
 *                                                             another number with bit 0
 *   n << 1           the platform has seen that n is over     waits
 *
 * User code can jump to any instruction here, with any registers, and can make each system call
 * that its filter allows at that instruction (filter.c). So nothing relies on a register behind
 * `asleep`: while bit 0 is clear, a thread that has got there stays there. Then it goes on with the
 * frame that the door names, wherever its stack pointer is.
 */
#include "stub.h"

	.section .rodata.outboard_stub, "a", @progbits
	.balign 64
	.globl ob_stub_code, ob_stub_code_end
	.globl ob_stub_start, ob_stub_stop, ob_stub_handler, ob_stub_wake, ob_stub_asleep
	.globl ob_stub_return
	.hidden ob_stub_code, ob_stub_code_end
	.hidden ob_stub_start, ob_stub_stop, ob_stub_handler, ob_stub_wake, ob_stub_asleep
	.hidden ob_stub_return

#define SYS_READ 0
#define SYS_RT_SIGRETURN 15
#define SYS_CLONE 56
#define SYS_FUTEX 202
#define SYS_EXIT_GROUP 231
#define EINTR 4

	.set door, ob_stub_code + PAGE

ob_stub_code:
	.byte	0x7f, 'E', 'L', 'F', 2, 1, 1, 0
	.quad	0
	.short	2, 62				/* an executable for x86-64 */
	.long	1
	.quad	STUB_LOADED + ob_stub_start - ob_stub_code
	.quad	64, 0
	.long	0
	.short	64, 56, 1, 0, 0, 0
	.long	1, 5				/* PT_LOAD, readable and executable */
	.quad	0, STUB_LOADED, STUB_LOADED
	.quad	2 * PAGE, 2 * PAGE, PAGE

ob_stub_start:
	lea	door(%rip), %rbx
	mov	DOOR_KNOWN(%rbx), %r13d
head:
	lea	DOOR_LIST(%rbx), %r12
next:
	mov	ORDER_NUMBER(%r12), %rax
	test	%rax, %rax
	js	special
	mov	ORDER_ARGUMENTS(%r12), %rdi
	mov	ORDER_ARGUMENTS + 8(%r12), %rsi
	mov	ORDER_ARGUMENTS + 16(%r12), %rdx
	mov	ORDER_ARGUMENTS + 24(%r12), %r10
	mov	ORDER_ARGUMENTS + 32(%r12), %r8
	mov	ORDER_ARGUMENTS + 40(%r12), %r9
	/* A new process may come so late that the list is another one. */
	mov	%eax, %r15d
	mov	%r9, %r14
	syscall
	cmp	$SYS_CLONE, %r15d
	jne	1f
	test	%rax, %rax
	jz	child
1:	mov	ORDER_EXPECTED(%r12), %ecx
	test	%ecx, %ecx
	jz	2f
	cmp	%ecx, %eax
	jne	failed
	jmp	skip
2:	cmp	$-4095, %rax
	jae	failed
skip:
	add	$ORDER_BYTES, %r12
	jmp	next
failed:
	mov	ORDER_OTHERWISE(%r12), %r12d
	add	%rbx, %r12
	jmp	next
child:
	mov	%r14, %r12
	jmp	next

special:
	inc	%rax
	jz	wait
	inc	%rax
	jz	jump
	inc	%rax
	jz	ob_stub_stop
	inc	%rax
	jz	skip
	inc	%rax
	jz	go_to
	mov	DOOR_REQUEST(%rbx), %eax	/* a gate */
	cmp	%eax, %r13d
	je	wait
	mov	%eax, %r13d
	jmp	skip
jump:
	mov	ORDER_ARGUMENTS(%r12), %rax
	jmp	*%rax
ob_stub_stop:
	ud2
go_to:
	mov	ORDER_ARGUMENTS(%r12), %r12
	add	%rbx, %r12
	jmp	next

wait:
	cmpl	$0, DOOR_READS(%rbx)
	jne	read
1:	mov	DOOR_REQUEST(%rbx), %eax
	cmp	%eax, %r13d
	jne	2f
	lea	DOOR_REQUEST(%rbx), %rdi
	xor	%esi, %esi
	mov	%r13d, %edx
	xor	%r10d, %r10d
	mov	$SYS_FUTEX, %eax
	syscall
	jmp	1b
2:	mov	%eax, %r13d
	jmp	head
read:
	xor	%edi, %edi
	lea	DOOR_SCRATCH(%rbx), %rsi
	mov	$64, %edx
	mov	$SYS_READ, %eax
	syscall
	cmp	$-EINTR, %rax
	je	read
	test	%rax, %rax
	jg	head
	mov	$SYS_EXIT_GROUP, %eax		/* the kernel's process has ended */
	syscall
	ud2

	/* One for all threads: continues in the thread's own page. */
ob_stub_handler:
	mov	%rsp, %rbx
	and	$-THREAD_BYTES, %rbx
	add	$(park - ob_stub_code), %rbx
	jmp	*%rbx
park:
	lea	door(%rip), %rbx
	lea	PAGE(%rbx), %rbp
	mov	%rdx, SLOT_CONTEXT(%rbp)
	rdfsbase %rax
	mov	%rax, SLOT_FS_BASE(%rbp)
	rdgsbase %rax
	mov	%rax, SLOT_GS_BASE(%rbp)
	mov	DOOR_STATE(%rbx), %eax
	shr	$1, %eax
	xchg	%eax, SLOT_DONE(%rbp)
	cmpl	$0, DOOR_HOST_SLEEPS(%rbx)
	je	1f
	lea	SLOT_DONE(%rbp), %rdi
	mov	$1, %esi
	mov	$1, %edx
	mov	$SYS_FUTEX, %eax
	syscall
ob_stub_wake:
1:	xor	%ecx, %ecx
2:	mov	DOOR_STATE(%rbx), %eax
	shr	$1, %eax
	jnc	3f
	cmp	%eax, SLOT_DONE(%rbp)
	jne	run
3:	pause
	inc	%ecx
	cmp	DOOR_SPINS(%rbx), %ecx
	jb	2b
sleep:
	lea	door(%rip), %rbx
	lea	PAGE(%rbx), %rbp
	mov	$1, %eax
	xchg	%eax, SLOT_SLEEPS(%rbp)
	mov	DOOR_STATE(%rbx), %edx
	mov	%edx, %eax
	shr	$1, %eax
	jnc	4f
	cmp	%eax, SLOT_DONE(%rbp)
	jne	run
4:	lea	DOOR_STATE(%rbx), %rdi
	xor	%esi, %esi
	xor	%r10d, %r10d
	mov	$SYS_FUTEX, %eax
	syscall
ob_stub_asleep:
	jmp	sleep
run:
	movl	$0, SLOT_SLEEPS(%rbp)
	mov	SLOT_FS_BASE(%rbp), %rax
	wrfsbase %rax
	mov	SLOT_GS_BASE(%rbp), %rax
	wrgsbase %rax
	mov	DOOR_FRAME(%rbx), %rsp
	mov	$SYS_RT_SIGRETURN, %eax
	syscall
ob_stub_return:
	ud2
ob_stub_code_end:
	.org	ob_stub_code + PAGE		/* an error if the code is larger */

	.section .note.GNU-stack, "", @progbits
