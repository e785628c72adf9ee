// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program that debugs its children, and has one dump core. program_cases_test.c
 * runs it inside of the kernel: traced_inside CASE. It knows nothing of Outboard, so it must pass
 * on any x86-64 Linux that writes core dumps to the file `core`.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/reg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

#define FLAG_STEP 0x100ul
#define EVENT(status) ((unsigned int)(status) >> 16)
#define CALL_STOP (SIGTRAP | 0x80)

/* ---- a child and its stops ------------------------------------------------ */

static pid_t begin(void (*run)(void))
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		run();
		_exit(0);
	}
	return child;
}

static int next_status(pid_t child)
{
	int status = -1;

	CHECK_EQUAL(waitpid(child, &status, __WALL), child);
	return status;
}

static void expect_stop(pid_t child, int number)
{
	int status = next_status(child);

	CHECK(WIFSTOPPED(status));
	CHECK_EQUAL(WSTOPSIG(status), number);
}

static void expect_exit(pid_t child, int code)
{
	CHECK_EQUAL(next_status(child), code << 8);
}

static void go_on(int request, pid_t child, int number)
{
	CHECK(!ptrace(request, child, 0, (long)number));
}

static struct user_regs_struct registers_of(pid_t child)
{
	struct user_regs_struct registers;

	CHECK(!ptrace(PTRACE_GETREGS, child, 0, &registers));
	return registers;
}

static void set_registers(pid_t child, const struct user_regs_struct *registers)
{
	CHECK(!ptrace(PTRACE_SETREGS, child, 0, registers));
}

static int code_of_stop(pid_t child)
{
	siginfo_t info;

	CHECK(!ptrace(PTRACE_GETSIGINFO, child, 0, &info));
	return info.si_code;
}

/* ---- registers ------------------------------------------------------------ */

#define PATTERN(n) (0x1111111111111111ull * (n))

/* Stops with known values, and exits with 0 if the debugger has left others, one more each. */
static void show_registers(void)
{
	uint64_t r12, r15, low;

	asm volatile("mov %3, %%r12\n\t"
		     "mov %4, %%r15\n\t"
		     "movq %%r12, %%xmm3\n\t"
		     "int3\n\t"
		     "movq %%xmm3, %2\n\t"
		     "mov %%r12, %0\n\t"
		     "mov %%r15, %1\n\t"
		     : "=r" (r12), "=r" (r15), "=r" (low)
		     : "r" (PATTERN(2)), "r" (PATTERN(5)) : "r12", "r15", "xmm3");
	_exit(r12 == PATTERN(2) + 1 && r15 == PATTERN(5) + 1 && low == PATTERN(2) + 1 ? 0 : 9);
}

static void check_register_places(pid_t child, const struct user_regs_struct *registers)
{
	struct iovec part;
	struct user_regs_struct again;

	part = (struct iovec){ &again, 2 * sizeof(long) };
	memset(&again, 0, sizeof(again));
	CHECK(!ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &part));
	CHECK(part.iov_len == 2 * sizeof(long) && again.r14 == registers->r14 && !again.r13);
	part = (struct iovec){ &again, 5 };
	CHECK(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &part) == -1 && errno == EINVAL);
	for (unsigned int place = 0; place < sizeof(*registers) / sizeof(long); place++) {
		errno = 0;
		CHECK_EQUAL(ptrace(PTRACE_PEEKUSER, child, place * sizeof(long), 0),
			    ((const long *)registers)[place]);
		CHECK_EQUAL(errno, 0);
	}
	/* No breakpoint of the processor is set, and none was hit. */
	for (unsigned int place = 0; place < 8; place++)
		CHECK_EQUAL(ptrace(PTRACE_PEEKUSER, child,
				   offsetof(struct user, u_debugreg[place]), 0),
			    place == 6 ? 0xffff0ff0 : 0);
}

static void refuse(pid_t child, size_t place, unsigned long value)
{
	errno = 0;
	CHECK(ptrace(PTRACE_POKEUSER, child, place, value) == -1 && errno == EIO);
}

static void check_bad_values(pid_t child)
{
	struct user_regs_struct before = registers_of(child), after;

	refuse(child, offsetof(struct user, regs.fs_base), 1ul << 63);
	refuse(child, offsetof(struct user, regs.gs_base), 0xfffffffffffff000ul);
	refuse(child, offsetof(struct user, regs.cs), 0);
	refuse(child, offsetof(struct user, regs.ss), 1);
	refuse(child, offsetof(struct user, regs.r15) + 1, 0);
	refuse(child, sizeof(struct user), 0);
	/* Flags that user code cannot set stay as they are: interrupts, privileges. */
	CHECK(!ptrace(PTRACE_POKEUSER, child, offsetof(struct user, regs.eflags),
		      before.eflags ^ 0x3200));
	after = registers_of(child);
	CHECK(!memcmp(&before, &after, sizeof(before)));
}

struct legacy_area {
	uint16_t control, status, tag, opcode;
	uint64_t instruction, operand;
	uint32_t mxcsr, mxcsr_mask;
	uint64_t x87[16], xmm[32], padding[12];
};

static union {
	struct legacy_area legacy;
	uint64_t words[2048];
} vectors;

static void check_vectors(pid_t child)
{
	struct iovec area = { &vectors, sizeof(vectors) };
	struct legacy_area legacy;
	size_t size;

	CHECK(!ptrace(PTRACE_GETFPREGS, child, 0, &legacy));
	CHECK(legacy.xmm[6] == PATTERN(2) && legacy.control == 0x37f);
	CHECK(!ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &area));
	size = area.iov_len;
	CHECK(size >= 576 && vectors.legacy.xmm[6] == PATTERN(2));
	/* gdb finds there which registers the processor has. */
	CHECK_EQUAL(vectors.words[464 / 8] & 3, 3);
	CHECK_EQUAL(vectors.words[520 / 8], 0);
	legacy.mxcsr = 0xffffffff;
	CHECK(ptrace(PTRACE_SETFPREGS, child, 0, &legacy) == -1 && errno == EINVAL);
	vectors.words[512 / 8] |= 1ull << 62;
	CHECK(ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &area) == -1 && errno == EINVAL);
	vectors.words[512 / 8] &= ~(1ull << 62);
	area.iov_len = size - 8;
	CHECK(ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &area) == -1 && errno == EFAULT);
	area.iov_len = size;
	vectors.legacy.xmm[6]++;
	vectors.words[512 / 8] |= 2;
	CHECK(!ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &area));
}

static void registers(void)
{
	pid_t child = begin(show_registers);
	struct user_regs_struct registers;

	expect_stop(child, SIGSTOP);
	go_on(PTRACE_CONT, child, 0);
	expect_stop(child, SIGTRAP);
	CHECK_EQUAL(code_of_stop(child), SI_KERNEL);
	registers = registers_of(child);
	CHECK(registers.r12 == PATTERN(2) && registers.r15 == PATTERN(5));
	CHECK_EQUAL(registers.orig_rax, -1);
	CHECK(registers.cs == 0x33 && registers.ss == 0x2b && registers.fs_base);
	check_register_places(child, &registers);
	check_bad_values(child);
	check_vectors(child);
	registers.r12++;
	registers.r15++;
	set_registers(child, &registers);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- step by step --------------------------------------------------------- */

extern const char step_first[], step_call[], step_after[], step_last[];

asm(".text\n"
    "walk:	nop\n"
    "step_first:	mov $39, %eax\n"	/* getpid */
    "step_call:	syscall\n"
    "step_after:	nop\n"
    "step_last:	ret\n");
void walk(void);

static volatile unsigned long handler_flags;

static void note_flags(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	handler_flags = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
}

static void step_child(void)
{
	struct sigaction action = { .sa_sigaction = note_flags, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	raise(SIGSTOP);
	walk();
	_exit(handler_flags && !(handler_flags & FLAG_STEP) ? 0 : 9);
}

static void step_to(pid_t child, int number, const void *address, int code)
{
	struct user_regs_struct registers;

	go_on(PTRACE_SINGLESTEP, child, number);
	expect_stop(child, SIGTRAP);
	registers = registers_of(child);
	CHECK_EQUAL(registers.rip, address);
	CHECK_EQUAL(code_of_stop(child), code);
	CHECK_EQUAL(registers.eflags & FLAG_STEP, 0);
}

/* Steps until the child is at `address`. */
static void walk_to(pid_t child, const void *address)
{
	for (int i = 0; i < 5000; i++) {
		go_on(PTRACE_SINGLESTEP, child, 0);
		expect_stop(child, SIGTRAP);
		if ((const void *)registers_of(child).rip == address)
			return;
	}
	CHECK(!"it never came there");
}

static void steps(void)
{
	pid_t child = begin(step_child);

	expect_stop(child, SIGSTOP);
	go_on(PTRACE_CONT, child, 0);
	expect_stop(child, SIGSTOP);
	walk_to(child, (const void *)walk);
	step_to(child, 0, step_first, TRAP_TRACE);
	step_to(child, 0, step_call, TRAP_TRACE);
	step_to(child, 0, step_after, TRAP_BRKPT);
	CHECK_EQUAL(registers_of(child).rax, child);
	/* Into the handler: no instruction of it has run. Then through it, and back. */
	step_to(child, SIGUSR1, (const void *)note_flags, SIGTRAP);
	walk_to(child, step_after);
	step_to(child, 0, step_last, TRAP_TRACE);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- a system call that is made again ------------------------------------- */

/* Only debuggers see it, and programs whose restart a debugger has taken away. */
#define ERESTARTSYS (-512)

static int ends[2];

extern const char read_call[];

asm(".text\n"
    "read_byte:	xor %eax, %eax\n"
    "read_call:	syscall\n"
    "	ret\n");
long read_byte(int fd, void *byte, size_t size);

static void read_child(void)
{
	struct sigaction action = {
		.sa_sigaction = note_flags, .sa_flags = SA_SIGINFO | SA_RESTART,
	};
	char bytes[2];

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK_EQUAL(read_byte(ends[0], bytes, 1), 1);
	CHECK_EQUAL(read_byte(ends[0], bytes, 2), ERESTARTSYS);
}

/* In a read() of so many bytes: one that has ended may still be shown. */
static void wait_until_blocked(pid_t child, unsigned int size)
{
	unsigned int number = 0, wanted = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", child);
	while (wanted != size) {
		file = fopen(path, "r");
		CHECK(file != NULL);
		if (fscanf(file, "%u %*x %*x %x", &number, &wanted) != 2 || number != SYS_read)
			wanted = 0;
		fclose(file);
	}
}

/* Interrupts the child's read() by a signal that waits to be delivered. */
static struct user_regs_struct interrupt_read(pid_t child, unsigned int size)
{
	struct user_regs_struct registers;

	wait_until_blocked(child, size);
	CHECK(!kill(child, SIGUSR1));
	expect_stop(child, SIGUSR1);
	registers = registers_of(child);
	CHECK_EQUAL(registers.orig_rax, SYS_read);
	CHECK_EQUAL(registers.rax, ERESTARTSYS);
	CHECK_EQUAL(registers.rip, read_call + 2);
	return registers;
}

static void restart(void)
{
	struct user_regs_struct registers;
	pid_t child;

	CHECK(!pipe(ends));
	child = begin(read_child);
	expect_stop(child, SIGSTOP);
	go_on(PTRACE_CONT, child, 0);
	interrupt_read(child, 1);
	step_to(child, SIGUSR1, (const void *)note_flags, SIGTRAP);
	walk_to(child, read_call);
	CHECK_EQUAL(registers_of(child).rax, SYS_read);
	CHECK(write(ends[1], "x", 1) == 1);
	step_to(child, 0, read_call + 2, TRAP_BRKPT);
	CHECK_EQUAL(registers_of(child).rax, 1);
	/* A debugger that calls a function first takes the restart away. */
	go_on(PTRACE_CONT, child, 0);
	registers = interrupt_read(child, 2);
	registers.orig_rax = (unsigned long)-1;
	set_registers(child, &registers);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- system calls --------------------------------------------------------- */

static void call_child(void)
{
	CHECK_EQUAL(syscall(SYS_getpid, 11, 22, 33, 44, 55, 66), getppid());
	CHECK_EQUAL(syscall(SYS_getpid, 0x5e), 55);
	CHECK_EQUAL(syscall(SYS_getpid, 0x5e), 56);
}

static void expect_entry(pid_t child, unsigned long argument)
{
	struct __ptrace_syscall_info info;
	struct user_regs_struct registers;

	expect_stop(child, CALL_STOP);
	CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0);
	CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == AUDIT_ARCH_X86_64);
	CHECK(info.entry.nr == SYS_getpid && info.entry.args[0] == argument);
	registers = registers_of(child);
	CHECK(info.instruction_pointer == registers.rip && info.stack_pointer == registers.rsp);
	CHECK(registers.orig_rax == SYS_getpid && (long)registers.rax == -ENOSYS);
	CHECK_EQUAL(registers.rdi, argument);
}

static void expect_result(pid_t child, long value)
{
	struct __ptrace_syscall_info info;

	expect_stop(child, CALL_STOP);
	CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0);
	CHECK_EQUAL(info.op, PTRACE_SYSCALL_INFO_EXIT);
	CHECK_EQUAL(info.exit.rval, value);
	CHECK_EQUAL(info.exit.is_error, value < 0);
}

static void poke(pid_t child, int place, long value)
{
	CHECK(!ptrace(PTRACE_POKEUSER, child, place * (long)sizeof(long), value));
}

static void calls(void)
{
	pid_t child = begin(call_child);

	expect_stop(child, SIGSTOP);
	CHECK(!ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD));
	go_on(PTRACE_SYSCALL, child, 0);
	expect_entry(child, 11);
	poke(child, ORIG_RAX, SYS_getppid);
	go_on(PTRACE_SYSCALL, child, 0);
	expect_result(child, getpid());
	/* getppid() of the child itself. */
	go_on(PTRACE_SYSCALL, child, 0);
	expect_stop(child, CALL_STOP);
	go_on(PTRACE_SYSCALL, child, 0);
	expect_result(child, getpid());
	/* No call, and a result of the debugger's. */
	go_on(PTRACE_SYSCALL, child, 0);
	expect_entry(child, 0x5e);
	poke(child, ORIG_RAX, -1);
	go_on(PTRACE_SYSCALL, child, 0);
	expect_result(child, -ENOSYS);
	poke(child, RAX, 55);
	go_on(PTRACE_SYSEMU, child, 0);
	expect_entry(child, 0x5e);
	poke(child, RAX, 56);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- events --------------------------------------------------------------- */

static char *self;

static void event_child(void)
{
	pid_t grandchild = fork();

	CHECK(grandchild >= 0);
	if (!grandchild)
		_exit(3);
	CHECK_EQUAL(next_status(grandchild), 3 << 8);
	execl(self, self, "nothing", NULL);
	_exit(9);
}

static unsigned long expect_event(pid_t child, unsigned int event)
{
	unsigned long message;
	int status = next_status(child);

	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	CHECK_EQUAL(EVENT(status), event);
	CHECK(!ptrace(PTRACE_GETEVENTMSG, child, 0, &message));
	return message;
}

static void events(void)
{
	const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT |
			     PTRACE_O_EXITKILL;
	pid_t child = begin(event_child), grandchild;

	expect_stop(child, SIGSTOP);
	CHECK(!ptrace(PTRACE_SETOPTIONS, child, 0, options));
	go_on(PTRACE_CONT, child, 0);
	grandchild = (pid_t)expect_event(child, PTRACE_EVENT_FORK);
	expect_stop(grandchild, SIGSTOP);
	go_on(PTRACE_CONT, child, 0);
	go_on(PTRACE_CONT, grandchild, 0);
	CHECK_EQUAL(expect_event(grandchild, PTRACE_EVENT_EXIT), 3 << 8);
	go_on(PTRACE_CONT, grandchild, 0);
	expect_exit(grandchild, 3);
	expect_stop(child, SIGCHLD);
	go_on(PTRACE_CONT, child, 0);
	CHECK_EQUAL(expect_event(child, PTRACE_EVENT_EXEC), child);
	CHECK_EQUAL(registers_of(child).orig_rax, SYS_execve);
	go_on(PTRACE_CONT, child, 0);
	CHECK_EQUAL(expect_event(child, PTRACE_EVENT_EXIT), 0);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- memory --------------------------------------------------------------- */

static const volatile char constant[] = "constant";
static volatile int variable = 1;

__attribute__((noinline)) static void function(void)
{
	asm volatile("nop");
	variable++;
}

static void memory_child(void)
{
	function();
	CHECK_EQUAL(variable, 2);
	raise(SIGSTOP);
	CHECK(constant[0] == 'C' && variable == 5);
}

/* In a page of the program's file, which other processes have mapped as well. */
static void check_breakpoint(pid_t child)
{
	const long *address = (const long *)function, word = *address;
	struct user_regs_struct registers;

	CHECK_EQUAL(ptrace(PTRACE_PEEKTEXT, child, address, 0), word);
	CHECK(!ptrace(PTRACE_POKETEXT, child, address, (word & ~0xffl) | 0xcc));
	go_on(PTRACE_CONT, child, 0);
	expect_stop(child, SIGTRAP);
	registers = registers_of(child);
	CHECK_EQUAL(registers.rip, (const char *)address + 1);
	CHECK_EQUAL(*address, word);
	CHECK(!ptrace(PTRACE_POKETEXT, child, address, word));
	registers.rip--;
	set_registers(child, &registers);
}

static void memory(void)
{
	pid_t child = begin(memory_child);
	struct iovec value = { &(int){ 5 }, sizeof(int) }, to = { (void *)&variable, sizeof(int) };
	char path[32];
	int fd;

	expect_stop(child, SIGSTOP);
	check_breakpoint(child);
	go_on(PTRACE_CONT, child, 0);
	expect_stop(child, SIGSTOP);
	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pwrite(fd, "C", 1, (long)constant) == 1 && constant[0] == 'c');
	CHECK_EQUAL(process_vm_writev(child, &value, 1, &to, 1, 0), sizeof(int));
	errno = 0;
	CHECK(ptrace(PTRACE_PEEKDATA, child, 8, 0) == -1 && errno == EIO);
	go_on(PTRACE_CONT, child, 0);
	expect_exit(child, 0);
}

/* ---- attaching ------------------------------------------------------------ */

static void *compute(void *unused)
{
	(void)unused;
	for (;;)
		variable++;
	return NULL;
}

/* A debugger comes to a process with a thread that computes, and goes again. */
static void attaching(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child)
		compute(NULL);
	CHECK(!ptrace(PTRACE_SEIZE, child, 0, 0));
	for (int i = 0; i < 100; i++) {
		CHECK(!ptrace(PTRACE_INTERRUPT, child, 0, 0));
		status = next_status(child);
		CHECK(WIFSTOPPED(status) && EVENT(status) == PTRACE_EVENT_STOP);
		CHECK(registers_of(child).rip);
		go_on(PTRACE_CONT, child, 0);
	}
	CHECK(ptrace(PTRACE_GETREGS, child, 0, &(struct user_regs_struct){ 0 }) == -1 &&
	      errno == ESRCH);
	CHECK(!ptrace(PTRACE_INTERRUPT, child, 0, 0));
	next_status(child);
	CHECK(!ptrace(PTRACE_DETACH, child, 0, 0));
	CHECK(!ptrace(PTRACE_ATTACH, child, 0, 0));
	expect_stop(child, SIGSTOP);
	CHECK(!ptrace(PTRACE_KILL, child, 0, 0) && next_status(child) == SIGKILL);
}

/* ---- core dumps ----------------------------------------------------------- */

#define CORE_VALUE PATTERN(0xa)
static volatile uint64_t in_core;
static atomic_int *ready;

static void *wait_with_value(void *unused)
{
	(void)unused;
	asm volatile("mov %0, %%r12\n\t"
		     "movl $1, %1\n"
		     "1:	pause\n\t"
		     "jmp 1b"
		     : : "r" (PATTERN(3)), "m" (*ready) : "r12", "memory");
	return NULL;
}

static void crash(void)
{
	static atomic_int is_ready;
	pthread_t thread;

	ready = &is_ready;
	CHECK(!setrlimit(RLIMIT_CORE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }));
	in_core = CORE_VALUE;
	CHECK(!pthread_create(&thread, NULL, wait_with_value, NULL));
	while (!is_ready)
		sched_yield();
	asm volatile("mov %0, %%r12\n\t"
		     "movq %%r12, %%xmm3\n\t"
		     "movl $1, 8"
		     : : "r" (PATTERN(4)) : "r12", "xmm3", "memory");
}

/* As in <sys/procfs.h>. */
struct status_note {
	int signal, code, error;
	short current;
	unsigned long pending, held;
	int process, parent, group, session;
	long times[8];
	struct user_regs_struct registers;
	int has_floating;
};

static unsigned int threads_seen, floating_seen, vectors_seen;

static void check_note(const Elf64_Nhdr *note, const char *data, pid_t child)
{
	const struct status_note *status = (const void *)data;

	switch (note->n_type) {
	case NT_PRSTATUS:
		CHECK_EQUAL(note->n_descsz, sizeof(*status));
		CHECK_EQUAL(status->registers.r12,
			    status->process == child ? PATTERN(4) : PATTERN(3));
		CHECK_EQUAL(status->current, SIGSEGV);
		threads_seen++;
		break;
	case NT_PRFPREG:
		CHECK_EQUAL(note->n_descsz, sizeof(struct legacy_area));
		/* The thread that has crashed comes first. */
		if (!floating_seen++)
			CHECK_EQUAL(((const struct legacy_area *)data)->xmm[6], PATTERN(4));
		break;
	case NT_X86_XSTATE:
		CHECK_EQUAL(((const uint64_t *)data)[464 / 8] & 3, 3);
		vectors_seen++;
		break;
	}
}

#define NOTE_ALIGNED(size) (((size) + 3ul) & ~3ul)

static void check_notes(const char *notes, size_t size, pid_t child)
{
	while (size > sizeof(Elf64_Nhdr)) {
		const Elf64_Nhdr *note = (const void *)notes;
		size_t name = NOTE_ALIGNED(note->n_namesz), data = NOTE_ALIGNED(note->n_descsz);

		CHECK(sizeof(*note) + name + data <= size);
		check_note(note, notes + sizeof(*note) + name, child);
		notes += sizeof(*note) + name + data;
		size -= sizeof(*note) + name + data;
	}
	CHECK(threads_seen == 2 && floating_seen == 2 && vectors_seen == 2);
}

static void check_core(const char *core, pid_t child)
{
	const Elf64_Ehdr *header = (const void *)core;
	const Elf64_Phdr *part = (const void *)(core + header->e_phoff);
	bool found = false;

	CHECK(!memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_type == ET_CORE);
	CHECK_EQUAL(header->e_machine, EM_X86_64);
	for (int i = 0; i < header->e_phnum; i++, part++) {
		size_t at = (size_t)&in_core - part->p_vaddr;

		if (part->p_type == PT_NOTE)
			check_notes(core + part->p_offset, part->p_filesz, child);
		else if (at < part->p_filesz)
			found = *(const uint64_t *)(core + part->p_offset + at) == CORE_VALUE;
	}
	CHECK(found);
}

static void core(void)
{
	pid_t child;
	int status, fd;
	off_t size;

	CHECK(!chdir(getenv("TMPDIR") ?: "/tmp"));
	unlink("core");
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		crash();
		_exit(9);
	}
	status = next_status(child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && WCOREDUMP(status));
	fd = open("core", O_RDONLY);
	CHECK(fd >= 0);
	size = lseek(fd, 0, SEEK_END);
	check_core(mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0), child);
	unlink("core");
}

static void nothing(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "registers", registers }, { "steps", steps }, { "restart", restart }, { "calls", calls },
	{ "events", events }, { "memory", memory }, { "attaching", attaching }, { "core", core },
	{ "nothing", nothing },
};

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	self = argv[0];
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}
