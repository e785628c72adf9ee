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
 *
 * (3) To take a system call that user code makes by a jump (ob_host_space_calls()): the same
 * hand-over, but without a signal of the host. The base of gs is the address of the slot then. The
 * code must not touch the stack, nor lose a register:
 *
 *   label        the code there has changed                   a signal there
 *   call         rcx, r11: free in a system call              frame.c undoes this: user code is
 *   call_swapped ax: has its bytes in reverse order           where rcx points
 *   call_flags   flags; ah and al have them                   (SF ZF AF PF CF in ah, OF in al)
 *   save_sp      sp: points into the slot                     the slot has the old one
 *   complete     other registers; the slot has all of them    the handler reports the call
 *   reported     the same; the platform has got the call      the handler waits. If user code may
 *                                                             run again, it reports EVENT_NONE
 *   return       nothing: user code runs
 *
 * A thread waits in the same way after a call as in the handler, but its signals are not blocked.
 * So the host may write a frame at any time. The platform writes registers elsewhere in the slot.
 */
#include "stub.h"

	.section .rodata.outboard_stub, "a", @progbits
	.balign 64
	.globl ob_stub_code, ob_stub_code_end
	.globl ob_stub_start, ob_stub_stop, ob_stub_handler, ob_stub_wake, ob_stub_asleep
	.globl ob_stub_return, ob_stub_call, ob_stub_call_swapped, ob_stub_call_flags
	.globl ob_stub_call_refused, ob_stub_call_restored, ob_stub_save, ob_stub_save_sp
	.globl ob_stub_save_end, ob_stub_complete
	.hidden ob_stub_code, ob_stub_code_end
	.hidden ob_stub_call, ob_stub_call_swapped, ob_stub_call_flags
	.hidden ob_stub_call_refused, ob_stub_call_restored, ob_stub_save, ob_stub_save_sp
	.hidden ob_stub_save_end, ob_stub_complete
	.hidden ob_stub_start, ob_stub_stop, ob_stub_handler, ob_stub_wake, ob_stub_asleep
	.hidden ob_stub_return

#define SYS_READ 0
#define SYS_RT_SIGRETURN 15
#define SYS_CLONE 56
#define SYS_FUTEX 202
#define SYS_EXIT_GROUP 231
#define EINTR 4

	.set door, ob_stub_code + PAGE
	.set slot, ob_stub_code + 2 * PAGE

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
	lock incl DOOR_PASSES(%rbx)
1:	xor	%edi, %edi
	lea	DOOR_SCRATCH(%rbx), %rsi
	mov	$64, %edx
	mov	$SYS_READ, %eax
	syscall
	cmp	$-EINTR, %rax
	je	1b
	lock incl DOOR_PASSES(%rbx)
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
	movl	$0, SLOT_WAITS(%rbp)
	mov	CONTEXT_IP(%rdx), %rax
	lea	ob_stub_complete(%rip), %rcx
	sub	%rcx, %rax
	cmp	$(ob_stub_return - ob_stub_complete), %rax
	jb	in_call
	movl	$EVENT_FRAME, SLOT_EVENT(%rbp)
store_bases:
	rdfsbase %rax
	mov	%rax, SLOT_FS_BASE(%rbp)
	rdgsbase %rax
	mov	%rax, SLOT_GS_BASE(%rbp)
report:
	mov	DOOR_STATE(%rbx), %eax
	shr	$1, %eax
	xchg	%eax, SLOT_DONE(%rbp)
	jmp	reported
in_call:
	cmp	$(reported - ob_stub_complete), %rax
	jb	store_bases
	mov	DOOR_STATE(%rbx), %eax
	shr	$1, %eax
	jnc	ob_stub_wake
	cmp	%eax, SLOT_DONE(%rbp)
	je	reported		/* perhaps before the platform was woken */
	movl	$EVENT_NONE, SLOT_EVENT(%rbp)
	jmp	report

	/* One for all threads, too: user code jumps here. */
ob_stub_call:
	bswap	%rax
ob_stub_call_swapped:
	lahf
	seto	%al
ob_stub_call_flags:
	rdgsbase %r11
	sub	first_slot(%rip), %r11
	ror	$THREAD_BITS, %r11
	cmp	$VCPUS_MOST, %r11
	jae	refuse
	rdgsbase %r11
	lea	ob_stub_save - slot(%r11), %r11
	jmp	*%r11
refuse:
	add	$0x7f, %al
	sahf
ob_stub_call_refused:
	bswap	%rax
ob_stub_call_restored:
	mov	%eax, %eax
	jmp	*GATE_REFUSED(%rcx)
	.balign	8
first_slot:
	.quad	FIRST_THREAD + 2 * PAGE

ob_stub_save:
	mov	%rax, slot + CALL_AX(%rip)
	mov	%rbx, slot + CALL_BX(%rip)
	mov	%rdx, slot + CALL_DX(%rip)
	mov	%rsi, slot + CALL_SI(%rip)
	mov	%rdi, slot + CALL_DI(%rip)
	mov	%rbp, slot + CALL_BP(%rip)
	mov	%r8, slot + CALL_R8(%rip)
	mov	%r9, slot + CALL_R9(%rip)
	mov	%r10, slot + CALL_R10(%rip)
	mov	%r12, slot + CALL_R12(%rip)
	mov	%r13, slot + CALL_R13(%rip)
	mov	%r14, slot + CALL_R14(%rip)
	mov	%r15, slot + CALL_R15(%rip)
	mov	GATE_BACK(%rcx), %r11
	mov	%r11, slot + CALL_IP(%rip)
	mov	%rsp, slot + CALL_SP(%rip)
	lea	slot + CALL_FLAGS + 8(%rip), %rsp
ob_stub_save_sp:
	pushfq
	mov	slot + CALL_SP(%rip), %rsp
ob_stub_save_end:
	movl	$EVENT_CALL, slot + SLOT_EVENT(%rip)
ob_stub_complete:
	lea	door(%rip), %rbx
	lea	PAGE(%rbx), %rbp
	rdfsbase %rax
	mov	%rax, SLOT_FS_BASE(%rbp)
	rdgsbase %rax
	mov	%rax, SLOT_GS_BASE(%rbp)
	mov	DOOR_VECTOR(%rbx), %rcx
	mov	DOOR_FEATURES(%rbx), %eax
	mov	DOOR_FEATURES + 4(%rbx), %edx
	xsaveopt64 (%rcx)
	movl	$1, SLOT_WAITS(%rbp)
	mov	DOOR_STATE(%rbx), %eax
	shr	$1, %eax
	xchg	%eax, SLOT_DONE(%rbp)
reported:
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
	cmpl	$0, SLOT_WAITS(%rbp)
	je	5f
	cmpl	$0, DOOR_JUMPS(%rbx)
	jne	jump_back
5:	mov	SLOT_FS_BASE(%rbp), %rax
	wrfsbase %rax
	mov	SLOT_GS_BASE(%rbp), %rax
	wrgsbase %rax
	mov	DOOR_FRAME(%rbx), %rsp
	mov	$SYS_RT_SIGRETURN, %eax
	jmp	return
jump_back:
	mov	CALL_AX(%rbp), %rax
	add	$0x7f, %al
	sahf
	mov	CALL_DX(%rbp), %rdx
	mov	CALL_SI(%rbp), %rsi
	mov	CALL_DI(%rbp), %rdi
	mov	CALL_R10(%rbp), %r10
	mov	DOOR_AX(%rbx), %rax
	mov	DOOR_BACK(%rbx), %rcx
	mov	DOOR_FLAGS(%rbx), %r11
	mov	CALL_BX(%rbp), %rbx
	mov	CALL_BP(%rbp), %rbp
	jmp	*%rcx
return:
	syscall
ob_stub_return:
	ud2
ob_stub_code_end:
	.org	ob_stub_code + PAGE		/* an error if the code is larger */

	.section .note.GNU-stack, "", @progbits
