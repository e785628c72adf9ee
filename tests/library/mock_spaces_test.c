// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs on the mock platform, whose calls for spaces fail one after the other.
 * usage: mock_spaces_test IMAGE
 *
 * The program is a script: step n is at the address ENTRY + 2 * n, as if each were a system call.
 * It forks; both processes write to one page and find their own values there. For each call of
 * each kind, the program runs once with just that call failing:
 *
 *   what fails                            what must follow
 *   create                                that process gets SIGKILL
 *   map, for want of room                 nothing: the kernel shows the pages once more
 *   protect, which the host cannot        nothing: the kernel hides the pages
 *   enter: the space is gone              that process gets SIGKILL
 *   enter: interrupted for no reason      nothing
 *   enter: a fault that is none (late)    nothing
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "check.h"
#include "mock.h"

#define MB (1ul << 20)
#define BASE 0x400000ull
#define ENTRY (BASE + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr))
/* In the bss of the program. */
#define DATA (BASE + 0x2000)

static struct ob_host *host;

#define CALL(number, a, b, c, d) \
	mock_call(host, number, (long)(a), (long)(b), (long)(c), (long)(d), 0)
#define OK(number, a, b, c, d)						\
	({								\
		long ok_ = CALL(number, a, b, c, d);			\
		if (ok_ < 0) {						\
			fprintf(stderr, "%s:%d: " #number ": error %ld\n",	\
				__FILE__, __LINE__, ok_);		\
			_Exit(1);					\
		}							\
		ok_;							\
	})

/* ---- the program --------------------------------------------------------- */

enum step_kind { MAKE_CALL, WRITE, EXPECT, FORK_CHILD };

/* FORK_CHILD: ax of 0 goes on at step `value`. */
static const struct step {
	enum step_kind kind;
	uint64_t number;		/* of the call, or the address */
	uint64_t value;			/* first argument */
	uint64_t second;
} steps[] = {
	{ WRITE, DATA, 1, 0 },
	{ WRITE, DATA + 4096, 7, 0 },
	{ MAKE_CALL, SYS_getpid, 0, 0 },
	{ MAKE_CALL, SYS_fork, 0, 0 },
	{ FORK_CHILD, 0, 10, 0 },
	{ WRITE, DATA, 2, 0 },
	{ MAKE_CALL, SYS_wait4, (uint64_t)-1, DATA + 8 },
	{ EXPECT, DATA, 2, 0 },
	{ EXPECT, DATA + 4096, 7, 0 },
	{ MAKE_CALL, SYS_exit_group, 0, 0 },
	/* The child. */
	{ EXPECT, DATA, 1, 0 },
	{ WRITE, DATA, 3, 0 },
	{ EXPECT, DATA + 4096, 7, 0 },
	{ EXPECT, DATA, 3, 0 },
	{ MAKE_CALL, SYS_exit_group, 5, 0 },
};

enum failure { CREATE, MAP, PROTECT, GONE, INTERRUPTED, LATE, NOTHING };

static struct {
	enum failure failure;
	uint32_t countdown;		/* calls of that kind until the one that fails; 0: over */
	bool has_failed;
	uint32_t wrong_values;
} state;

/* Whether it is the turn of a call of this kind to fail. */
static bool fails_now(enum failure failure)
{
	if (state.failure != failure || !state.countdown || --state.countdown)
		return false;
	state.has_failed = true;
	return true;
}

static int fail(void *unused, enum mock_space_call call)
{
	static const enum failure failures[] = { CREATE, MAP, PROTECT };
	static const int errors[] = { -EAGAIN, -ENOMEM, -ENOSYS };

	(void)unused;
	return fails_now(failures[call]) ? errors[call] : 0;
}

/* Finds memory of the program. NULL: the event is a page fault. */
static uint64_t *reach(uint64_t space, uint64_t address, uint32_t protection,
		       struct ob_space_event *event)
{
	uint64_t *memory = mock_space_memory(host, space, address, protection);

	if (memory)
		return memory;
	*event = (struct ob_space_event){
		.kind = OB_SPACE_TRAP, .vector = 14, .address = address,
		.error_code = 4u | (protection & OB_PROTECTION_WRITE ? 2 : 0) |
			      (protection & OB_PROTECTION_EXECUTE ? 16 : 0) |
			      (mock_space_memory(host, space, address, 0) ? 1 : 0),
	};
	return NULL;
}

static void make_call(const struct step *step, struct ob_space_registers *registers,
		      struct ob_space_event *event)
{
	registers->ax = step->number;
	registers->di = step->value;
	registers->si = step->second;
	registers->dx = registers->r10 = 0;
	registers->ip += 2;
	*event = (struct ob_space_event){ .kind = OB_SPACE_SYSCALL };
}

/* Returns whether the program goes on. */
static bool make_step(uint64_t space, struct ob_space_registers *registers,
		      struct ob_space_event *event)
{
	const struct step *step = &steps[(registers->ip - ENTRY) / 2];
	uint64_t *memory;

	if (!reach(space, registers->ip & ~7ull, OB_PROTECTION_EXECUTE, event))
		return false;
	if (step->kind == MAKE_CALL) {
		make_call(step, registers, event);
		return false;
	}
	if (step->kind == FORK_CHILD) {
		registers->ip = registers->ax ? registers->ip + 2 : ENTRY + 2 * step->value;
		return true;
	}
	memory = reach(space, step->number,
		       step->kind == WRITE ? OB_PROTECTION_WRITE : OB_PROTECTION_READ, event);
	if (!memory)
		return false;
	if (step->kind == WRITE)
		*memory = step->value;
	else
		state.wrong_values += *memory != step->value;
	registers->ip += 2;
	return true;
}

static void run(void *unused, uint64_t space, struct ob_space_registers *registers,
		struct ob_space_event *event)
{
	(void)unused;
	if (fails_now(GONE)) {
		event->kind = OB_SPACE_GONE;
		return;
	}
	if (fails_now(INTERRUPTED))
		return;
	/* A fault of a page that is shown meanwhile. */
	if (fails_now(LATE)) {
		*event = (struct ob_space_event){
			.kind = OB_SPACE_TRAP, .vector = 14, .address = registers->ip,
			.error_code = 4 | 16,
		};
		return;
	}
	while (make_step(space, registers, event))
		;
}

/* ---- the kernel ---------------------------------------------------------- */

static void write_program(const char *path)
{
	static char bytes[4096];
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
	Elf64_Phdr *segment = (Elf64_Phdr *)(header + 1);
	long fd = OK(SYS_open, path, O_CREAT | O_WRONLY, 0755, 0);

	*header = (Elf64_Ehdr){
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_entry = ENTRY, .e_phoff = sizeof(*header), .e_ehsize = sizeof(*header),
		.e_phentsize = sizeof(*segment), .e_phnum = 1,
	};
	*segment = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R | PF_W | PF_X, .p_vaddr = BASE,
		.p_filesz = sizeof(bytes), .p_memsz = 0x4000, .p_align = 4096,
	};
	CHECK_EQUAL(OK(SYS_write, fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	OK(SYS_close, fd, 0, 0, 0);
}

/* Of the kernel, which come and go. More programs than this were killed. */
#define WORKERS 4

static long tasks(void)
{
	struct sysinfo info;

	OK(SYS_sysinfo, &info, 0, 0, 0);
	return info.procs;
}

/* Runs the program once. Returns how it ended. */
static int run_program(void)
{
	static const char *const arguments[] = { "/ram/program", NULL }, *const none[] = { NULL };
	int pid, status = -1;

	state.has_failed = false;
	pid = mock_upcalls(host)->program_start("/ram/program", arguments, none);
	CHECK(pid > 0);
	CHECK_EQUAL(OK(SYS_wait4, pid, &status, 0, 0), pid);
	CHECK_EQUAL(state.wrong_values, 0);
	return status;
}

/* Each call of that kind fails once. Returns how many there are. */
static uint32_t fail_each(enum failure failure)
{
	const bool may_kill = failure == CREATE || failure == GONE;
	uint32_t killed = 0, turn;
	int status;

	for (turn = 1;; turn++) {
		state.failure = failure;
		state.countdown = turn;
		status = run_program();
		if (!state.has_failed)
			break;
		killed += WIFSIGNALED(status);
		CHECK(!status || (may_kill && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	}
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(killed > 0, may_kill);
	printf("%d: %u calls\n", (int)failure, turn - 1);
	return turn - 1;
}

int main(int argc, char **argv)
{
	const struct mock_program program = { .run = run, .fail = fail };
	struct mock_options options = {
		.memory = 64 * MB, .vcpus = 1, .log_level = 3, .program = &program,
	};
	long before;

	CHECK(argc == 2);
	host = mock_new(argv[1], &options);
	CHECK(host);
	CHECK_EQUAL(mock_boot(host), 0);
	OK(SYS_mkdir, "/ram", 0755, 0, 0);
	OK(SYS_mount, "none", "/ram", "tmpfs", 0);
	write_program("/ram/program");
	state.failure = NOTHING;
	CHECK_EQUAL(run_program(), 0);
	before = tasks();
	CHECK_EQUAL(fail_each(CREATE), 2);
	CHECK(fail_each(MAP) > 4);
	CHECK(fail_each(PROTECT) > 0);
	CHECK(fail_each(GONE) > 10);
	CHECK(fail_each(INTERRUPTED) > 10);
	CHECK(fail_each(LATE) > 10);
	/* Children of a program that was killed end by themselves. */
	for (int i = 0; i < 1000 && (tasks() > before || mock_counts(host)->spaces); i++)
		OK(SYS_sched_yield, 0, 0, 0, 0);
	CHECK(tasks() <= before + WORKERS);
	CHECK_EQUAL(mock_counts(host)->spaces, 0);
	CHECK_EQUAL(mock_counts(host)->wrong_spaces, 0);
	CHECK_EQUAL(mock_halt(host), 0);
	mock_free(host);
	puts("done");
	return 0;
}
