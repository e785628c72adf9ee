/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The layout that the code of stub processes (stub.S) and the platform share.
 *
 * A page of code is always followed by its door, and in a user thread by its slot:
 *
 *   page    in the stub        written by           contents
 *   code    read, execute      nobody               stub.S
 *   door    read               the platform         lists of orders; whether user code may run
 *   slot    read, write        the platform, and    registers: those with which the thread goes on,
 *                              user code            those of a call, the host's signal frame
 *
 * So no code of the stub relies on a register or on memory that user code can write, but for what
 * concerns the user code itself.
 */
#ifndef OUTBOARD_POSIX_SPACE_STUB_H
#define OUTBOARD_POSIX_SPACE_STUB_H

/* The address at which the host loads the file of the code when it is executed. */
#define STUB_LOADED 0x400000

/* An order: a system call of the host. Offsets of its members. */
#define ORDER_NUMBER 0
#define ORDER_ARGUMENTS 8
#define ORDER_EXPECTED 56
#define ORDER_OTHERWISE 60
#define ORDER_BYTES 64

/* Orders that are no system calls. */
#define ORDER_WAIT -1		/* for the next request; then from the head of the list */
#define ORDER_JUMP -2		/* to the code at the address */
#define ORDER_STOP -3		/* raise an exception: the thread becomes one of user code */
#define ORDER_SKIP -4
#define ORDER_GO -5		/* to the order at the offset in the door */
#define ORDER_GATE -6		/* as ORDER_WAIT, unless there is a new request */

/* Members of a door. */
#define DOOR_REQUEST 0x00	/* number of the last request */
#define DOOR_STATE 0x04		/* number of the entry << 1 | user code may run */
#define DOOR_HOST_SLEEPS 0x08	/* the platform waits for `done` with a futex */
#define DOOR_SPINS 0x0c		/* looks at `state` before the thread sleeps; may become less */
#define DOOR_READS 0x10		/* requests come by descriptor 0, not by a futex */
#define DOOR_DONE 0x14		/* the last request that was carried out */
#define DOOR_FAILED 0x18	/* the last request of which an order failed */
#define DOOR_CHILD 0x1c		/* thread ID of the last process that was made */
#define DOOR_KNOWN 0x20		/* the first request is another one */
#define DOOR_START 0x24		/* what a mapper writes to `state` of a user thread */
#define DOOR_FRAME 0x28		/* 8 bytes: the ucontext with which a user thread goes on */
#define DOOR_JUMPS 0x30		/* a thread that has made a call by a jump returns by a jump */
#define DOOR_PASSES 0x34		/* of the zygote: odd while it carries out orders */
#define DOOR_SCRATCH 0x40	/* 64 bytes that are read from descriptor 0 */
/* In the door of a user thread, 8 bytes each: registers of a return by a jump. */
#define DOOR_AX 0x40
#define DOOR_BACK 0x48
#define DOOR_FLAGS 0x50
/* And where and which vector registers are saved. */
#define DOOR_VECTOR 0x58
#define DOOR_FEATURES 0x60
#define DOOR_LIST 0x800		/* the first order */

/* Members of a slot. */
#define SLOT_DONE 0x00		/* number of the entry that has ended */
#define SLOT_SLEEPS 0x04	/* the thread waits for `state` with a futex */
#define SLOT_THREAD 0x08	/* its thread ID */
#define SLOT_FS_BASE 0x10
#define SLOT_GS_BASE 0x18
#define SLOT_CONTEXT 0x20	/* address of the ucontext in the signal frame */
#define SLOT_EVENT 0x28		/* EVENT_... */
#define SLOT_WAITS 0x2c		/* the thread waits in a call by a jump, not in a signal handler */
#define SLOT_CALL 0x40		/* registers of a call by a jump, as struct ob_space_registers */
#define SLOT_PREPARED 0x100	/* the ucontext that the platform writes */
#define SLOT_VECTOR 0x240	/* its vector registers, aligned to 64 */
#define SLOT_STACK 0x3000	/* for the signal frame, to the end of the slot */

/* How an entry has ended. */
#define EVENT_FRAME 0		/* by a signal: the frame has the registers */
#define EVENT_CALL 1		/* by a call: SLOT_CALL has them */
#define EVENT_NONE 2		/* before user code went on */

/* Places in SLOT_CALL. `ax` and `flags` are as stub.S packs them. */
#define CALL_AX (SLOT_CALL + 0x00)
#define CALL_BX (SLOT_CALL + 0x08)
#define CALL_DX (SLOT_CALL + 0x18)
#define CALL_SI (SLOT_CALL + 0x20)
#define CALL_DI (SLOT_CALL + 0x28)
#define CALL_BP (SLOT_CALL + 0x30)
#define CALL_SP (SLOT_CALL + 0x38)
#define CALL_R8 (SLOT_CALL + 0x40)
#define CALL_R9 (SLOT_CALL + 0x48)
#define CALL_R10 (SLOT_CALL + 0x50)
#define CALL_R12 (SLOT_CALL + 0x60)
#define CALL_R13 (SLOT_CALL + 0x68)
#define CALL_R14 (SLOT_CALL + 0x70)
#define CALL_R15 (SLOT_CALL + 0x78)
#define CALL_IP (SLOT_CALL + 0x80)
#define CALL_FLAGS (SLOT_CALL + 0x88)

/* Members of struct ob_space_call. */
#define GATE_BACK 0
#define GATE_REFUSED 8

/* In the host's ucontext. */
#define CONTEXT_IP 168

#define PAGE 0x1000

/* Code, door and slot of a user thread, aligned to their size. */
#define THREAD_BYTES 0x8000
#define THREAD_BITS 15

#define VCPUS_MOST 64
/* The address of the first user thread, in every stub. */
#define FIRST_THREAD 0x7fffffc20000

#endif
