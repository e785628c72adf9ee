// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program that looks at what Linux promises to programs. test_semantics.py runs
 * it inside of the kernel and on the host, and compares the output. It knows nothing of Outboard.
 *
 *   semantics [CASE ...]     runs these cases, or all. Each is a process, and prints what it finds
 *   OFTEN=1                  the cases repeat more
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "semantics.h"
#include "executed.h"

char *self;

long rounds(long quick, long often)
{
	return getenv("OFTEN") ? often : quick;
}

void *map(size_t size, int flags)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

int unnamed_file(size_t size)
{
	char name[] = "./semantics-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0 && !unlink(name) && !ftruncate(fd, (off_t)size));
	return fd;
}

pid_t fork_or_die(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	return child;
}

int wait_for(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

void wait_for_success(pid_t child)
{
	CHECK_EQUAL(wait_for(child), 0);
}

void wait_for_signal(pid_t child, int number)
{
	int status = wait_for(child);

	CHECK(WIFSIGNALED(status));
	CHECK_EQUAL(WTERMSIG(status), number);
}

bool is_asleep(pid_t process)
{
	char path[64], text[256], *state;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	fd = open(path, O_RDONLY);
	size = read(fd, text, sizeof(text) - 1);
	CHECK(fd >= 0 && size > 0 && !close(fd));
	text[size] = '\0';
	state = strrchr(text, ')');
	CHECK(state);
	return state[2] == 'S';
}

void wait_until_asleep(pid_t process)
{
	while (!is_asleep(process))
		usleep(500);
}

void wait_for_word(const volatile int *word, int least)
{
	while (*word < least)
		usleep(500);
}

void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	CHECK(!sigaction(number, &action, NULL));
}

volatile sig_atomic_t counted;

void count_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	counted = counted + 1;
}

static sigjmp_buf back;
static struct fault seen;

static void on_fault(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;

	seen = (struct fault) {
		number, info->si_code, info->si_addr, registers[REG_TRAPNO], registers[REG_RIP],
	};
	siglongjmp(back, 1);
}

struct fault call(void (*function)(void))
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		set_handler(numbers[i], on_fault, 0);
	seen = (struct fault) {};
	if (!sigsetjmp(back, 1))
		function();
	return seen;
}

static volatile char *touched;

static void do_read(void)
{
	(void)*touched;
}

static void do_write(void)
{
	*touched = 1;
}

struct fault touch(volatile void *address, bool write)
{
	touched = address;
	return call(write ? do_write : do_read);
}

pid_t start_self(char *const *words)
{
	pid_t child;

	CHECK(!posix_spawn(&child, self, NULL, NULL, words, environ));
	return child;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(cow_load), CASE(final_unmap), CASE(mapping_kinds), CASE(remapping), CASE(advice),
	CASE(generated_code), CASE(growing_stack), CASE(other_memory), CASE(direct_io),
	CASE(shared_files), CASE(private_files), CASE(truncated_files),
	CASE(every_instruction), CASE(changed_context), CASE(jumps), CASE(contexts),
	CASE(exceptions), CASE(queues), CASE(dispositions), CASE(children_signals),
	CASE(interrupted_calls), CASE(alternate_stacks), CASE(vector_state),
	CASE(stopped), CASE(niceness), CASE(cpu_time), CASE(endless_loops), CASE(timers),
	CASE(mutexes), CASE(robust_mutexes), CASE(two_addresses), CASE(cancellation),
	CASE(many_threads), CASE(futex_calls), CASE(loaded_library), CASE(thread_signals),
	CASE(exec_beside_threads), CASE(virtual_fork), CASE(long_arguments), CASE(nested_scripts),
	CASE(busy_text), CASE(exec_by_descriptor), CASE(kept_by_exec), CASE(spawn),
	CASE(clones), CASE(layout), CASE(terminals), CASE(orphans),
#undef CASE
};

static bool is_chosen(const char *name, char *const *words)
{
	if (!*words)
		return true;
	while (*words && strcmp(*words, name))
		words++;
	return *words;
}

static bool run(const char *name, void (*function)(void))
{
	pid_t child;
	int status;

	printf("%s\n", name);
	fflush(stdout);
	child = fork_or_die();
	if (!child) {
		/* A group of its own: a case may signal to its group, or leave children. */
		CHECK(!setpgid(0, 0));
		function();
		fflush(stdout);
		_exit(0);
	}
	status = wait_for(child);
	if (!status)
		return true;
	printf("%s: status %x\n", name, (unsigned int)status);
	return false;
}

int main(int argc, char **argv)
{
	bool good = true;

	CHECK(argc);
	self = "/proc/self/exe";
	if (argc > 1 && !strcmp(argv[1], EXECUTED))
		return executed(argv + 2);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (is_chosen(cases[i].name, argv + 1))
			good &= run(cases[i].name, cases[i].run);
	return !good;
}
