// SPDX-License-Identifier: GPL-2.0-only
/* See space_tracer.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "space_tracer.h"
#include "space/space.h"

/* si_code of a SIGSYS that a filter raises. */
#define CODE_OF_FILTER 1
#define WATCHED_MOST 2u

struct traced_calls traced;

static struct watched {
	pid_t thread;
	uint32_t vcpu;
	atomic_bool is_ready;
	struct __ptrace_syscall_info call;	/* noted */
	bool has_call;
} threads[WATCHED_MOST];

static uint32_t thread_count;
static pthread_t tracer;

static bool is_allowed(const struct watched *self)
{
	const struct __ptrace_syscall_info *call = &self->call;
	const uint64_t code = THREAD_CODE(self->vcpu), at = call->instruction_pointer;
	const uint64_t word = THREAD_DOOR(self->vcpu) + DOOR_STATE;

	/* Of Linux 6.11 and later: no filter sees them. Outside of a probe they do nothing. */
	if (call->entry.nr == 335 || call->entry.nr == 336)
		return true;
	if (call->arch != AUDIT_ARCH_X86_64)
		return false;
	if (call->entry.nr == SYS_rt_sigreturn)
		return at == ob_stub_address(code, ob_stub_return);
	if (call->entry.nr != SYS_futex)
		return false;
	if ((uint32_t)call->entry.args[1] == FUTEX_WAKE)
		return at == ob_stub_address(code, ob_stub_wake);
	return (uint32_t)call->entry.args[1] == FUTEX_WAIT && call->entry.args[0] == word &&
	       at == ob_stub_address(code, ob_stub_asleep);
}

static void settle(struct watched *self)
{
	if (!self->has_call)
		return;
	self->has_call = false;
	traced.made++;
	if (is_allowed(self))
		return;
	traced.escaped++;
	fprintf(stderr, "system call %ld (%#lx, %#lx) was made at %#lx\n",
		(long)self->call.entry.nr, (unsigned long)self->call.entry.args[0],
		(unsigned long)self->call.entry.args[1],
		(unsigned long)self->call.instruction_pointer);
}

static void note_entry(struct watched *self)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, self->thread, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	settle(self);
	self->call = info;
	self->has_call = true;
}

static int note_signal(struct watched *self, int number)
{
	siginfo_t info;

	if (number == SIGSYS && !ptrace(PTRACE_GETSIGINFO, self->thread, 0, &info) &&
	    info.si_code == CODE_OF_FILTER &&
	    (uint32_t)info.si_syscall == (uint32_t)self->call.entry.nr &&
	    (uint64_t)info.si_call_addr == self->call.instruction_pointer) {
		traced.refused++;
		self->has_call = false;
	}
	return number;
}

/* Handles a stop. Returns the signal with which the thread goes on. */
static int handle_stop(struct watched *self, int status)
{
	int number = WSTOPSIG(status);

	if (status >> 16 == PTRACE_EVENT_STOP)
		return 0;
	if (number != (SIGTRAP | 0x80))
		return note_signal(self, number);
	note_entry(self);
	return 0;
}

static struct watched *watched_of(pid_t thread)
{
	for (uint32_t i = 0; i < thread_count; i++)
		if (threads[i].thread == thread)
			return &threads[i];
	CHECK(!"a thread that is watched");
	return NULL;
}

static void *trace(void *unused)
{
	struct watched *self;
	int status, number;
	pid_t thread;

	for (uint32_t i = 0; i < thread_count; i++) {
		CHECK(!ptrace(PTRACE_SEIZE, threads[i].thread, 0, PTRACE_O_TRACESYSGOOD));
		CHECK(!ptrace(PTRACE_INTERRUPT, threads[i].thread, 0, 0));
	}
	while ((thread = waitpid(-1, &status, __WALL | __WNOTHREAD)) > 0) {
		self = watched_of(thread);
		if (!WIFSTOPPED(status)) {
			settle(self);
			continue;
		}
		number = handle_stop(self, status);
		self->is_ready = true;
		ptrace(PTRACE_SYSCALL, thread, 0, number);
	}
	CHECK_EQUAL(errno, ECHILD);
	return unused;
}

void watch(uint64_t space, uint32_t vcpus)
{
	CHECK(vcpus <= WATCHED_MOST);
	thread_count = vcpus;
	for (uint32_t i = 0; i < vcpus; i++)
		threads[i] = (struct watched){
			.vcpu = i,
			.thread = (pid_t)mock_host->spaces->spaces[space].threads[i].tid,
		};
	CHECK(!pthread_create(&tracer, NULL, trace, NULL));
	for (uint32_t i = 0; i < vcpus; i++)
		while (!threads[i].is_ready)
			usleep(100);
}

void end_watch(uint64_t space)
{
	pid_t stub = stub_of(space);

	if (stub)
		kill(stub, SIGKILL);
	CHECK(!pthread_join(tracer, NULL));
}

uint32_t enter_to_event(uint64_t space)
{
	do {
		enter(space);
	} while (event.kind == OB_SPACE_INTERRUPTED);
	return event.kind;
}

void check_call(uint64_t space)
{
	do {
		enter_at_code(space);
	} while (event.kind == OB_SPACE_INTERRUPTED);
	CHECK_EQUAL(event.kind, OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
}

void check_others(uint64_t bystander)
{
	uint64_t space = 0;

	check_call(bystander);
	CHECK_EQUAL(ob_host_space_create(mock_host, &space), 0);
	map(space, CODE, CODE_PAGE, EXECUTE);
	check_call(space);
	ob_host_space_destroy(mock_host, space);
}

uint64_t new_attacker(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));

	check_call(space);
	watch(space, 1);
	return space;
}

void end_attacker(uint64_t space)
{
	end_watch(space);
	ob_host_space_destroy(mock_host, space);
}
