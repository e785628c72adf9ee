/* SPDX-License-Identifier: GPL-2.0-only */
/* What the cases of semantics.c share. */
#ifndef OUTBOARD_TESTS_SEMANTICS_H
#define OUTBOARD_TESTS_SEMANTICS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "check.h"

#define PAGE 4096ul

/* How often a case repeats what must hold each time: `quick`, or `often` times in a long run. */
long rounds(long quick, long often);

/* The path of this program. */
extern char *self;

/* New memory, readable and writable. `flags`: MAP_SHARED or MAP_PRIVATE, and more. */
void *map(size_t size, int flags);
/* A new file without a name, in the working directory. */
int unnamed_file(size_t size);
pid_t fork_or_die(void);
/* The status of a child that ends. */
int wait_for(pid_t child);
/* The case ends if that child does not exit with 0. */
void wait_for_success(pid_t child);
void wait_for_signal(pid_t child, int number);
/* Whether that process sleeps in a call, as /proc says. */
bool is_asleep(pid_t process);
void wait_until_asleep(pid_t process);
/* Waits until a word is at least that. */
void wait_for_word(const volatile int *word, int least);
void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags);
/* A handler that counts: `counted` is the number of its calls. */
void count_signal(int number, siginfo_t *info, void *context);
extern volatile sig_atomic_t counted;

/* Whether an access faults. */
struct fault {
	int number;			/* of the signal; 0: it does not */
	int code;			/* si_code */
	void *address;			/* si_addr */
	long trap, ip;			/* of the context */
};
struct fault touch(volatile void *address, bool write);
/* The fault of a function. */
struct fault call(void (*function)(void));
/* Starts this program anew, with these words, NULL at their end. */
pid_t start_self(char *const *words);

/* The cases, by file. */
void cow_load(void), final_unmap(void), mapping_kinds(void), remapping(void), advice(void);
void generated_code(void), growing_stack(void), other_memory(void), direct_io(void);
void shared_files(void), private_files(void), truncated_files(void);
void every_instruction(void), changed_context(void), jumps(void), contexts(void);
void exceptions(void), queues(void), dispositions(void), children_signals(void);
void interrupted_calls(void), alternate_stacks(void), vector_state(void);
void stopped(void), niceness(void), cpu_time(void), endless_loops(void), timers(void);
void mutexes(void), robust_mutexes(void), two_addresses(void), cancellation(void);
void many_threads(void), futex_calls(void), loaded_library(void), thread_signals(void);
void exec_beside_threads(void), virtual_fork(void), long_arguments(void), nested_scripts(void);
void busy_text(void), exec_by_descriptor(void), kept_by_exec(void), spawn(void);
void clones(void), layout(void), terminals(void), orphans(void);

#endif
