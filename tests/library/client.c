// SPDX-License-Identifier: GPL-2.0-only
/* See client.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "client.h"
#include "entries.h"

void client_boot(unsigned int vcpus)
{
	const char *spares = getenv("SPARE_INTERFACES");
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = vcpus,
		.memory = 512ull << 20,
		.log_level = OB_LOG_DEFAULT,
		.snapshots = getenv("SNAPSHOTS"),
		.components = getenv("COMPONENTS"),
		.command_line = getenv("COMMAND_LINE"),
		.spare_interfaces = spares ? (unsigned int)atoi(spares) : 0,
	};
	int error = ob_boot(&config);

	if (error) {
		fprintf(stderr, "ob_boot: %s: %s\n", strerror(-error), ob_boot_error());
		_Exit(1);
	}
	if (config.snapshots)
		printf("snapshot: %s\n", ob_snapshot_status());
}

int client_mount(const char *image, const char *type, const char *directory)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = image };
	char name[32], device[48];
	int disk = ob_disk_add(&config, name);

	if (disk < 0) {
		fprintf(stderr, "ob_disk_add(%s): %s\n", image, strerror(-disk));
		_Exit(1);
	}
	snprintf(device, sizeof(device), "/dev/%s", name);
	OK(ob_sys_mkdir(directory, 0755));
	OK(ob_sys_mount(device, directory, type, 0, NULL));
	return disk;
}

void client_tmpfs(const char *directory)
{
	OK(ob_sys_mkdir(directory, 0755));
	/* The default is half of the memory that the kernel has so far. */
	OK(ob_sys_mount("none", directory, "tmpfs", 0, "size=400m"));
}

char *client_border(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	CHECK(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
	return pages + 4096;
}

static sigjmp_buf after_fault;
static volatile sig_atomic_t expects_fault;

/* A fault elsewhere is a mistake of the kernel: it happens again, and ends the program. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (expects_fault)
		siglongjmp(after_fault, 1);
	dprintf(STDERR_FILENO, "unexpected fault at %p, code %d\n", info->si_addr, info->si_code);
	CHECK(signal(number, SIG_DFL) != SIG_ERR);
}

void client_catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
}

int client_can_read(volatile char *address)
{
	int faulted = sigsetjmp(after_fault, 1);

	expects_fault = !faulted;
	if (!faulted)
		(void)*address;
	expects_fault = 0;
	return !faulted;
}

int client_can_write(volatile char *address)
{
	int faulted = sigsetjmp(after_fault, 1);

	expects_fault = !faulted;
	if (!faulted)
		*address = *address;
	expects_fault = 0;
	return !faulted;
}

void client_load(const char *path, const char *parameters)
{
	static char module[1 << 20];
	FILE *file = fopen(path, "rb");
	size_t size;

	CHECK(file);
	size = fread(module, 1, sizeof(module), file);
	CHECK(size > 0 && size < sizeof(module));
	fclose(file);
	OK(ob_sys_init_module(module, size, parameters));
}

uint64_t client_resident_bytes(void)
{
	unsigned long total, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file);
	CHECK(fscanf(file, "%lu %lu", &total, &resident) == 2);
	fclose(file);
	return resident * 4096;
}

static char state_of(long number)
{
	char path[64], text[256], state = '?';
	long length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/stat", number);
	fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
	length = OK(ob_sys_read(fd, text, sizeof(text) - 1));
	text[length] = '\0';
	OK(ob_sys_close(fd));
	CHECK_EQUAL(sscanf(text, "%*d (%*[^)]) %c", &state), 1);
	return state;
}

void client_wait_until_asleep(const volatile long *number)
{
	if (ob_sys_mkdir("/proc", 0755) == 0 || ob_sys_access("/proc/self", F_OK))
		OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	while (!*number || state_of(*number) != 'S')
		usleep(10000);
}

/* Tasks, and what they had, go a moment after the threads that had them. */
#define SETTLING 6000		/* hundredths of a second */

void client_wait_for_tasks(long most)
{
	for (int i = 0; client_task_count() > most; i++) {
		CHECK(i < SETTLING && "tasks go with their threads");
		usleep(10000);
	}
}

void client_wait_for_memory(uint64_t most)
{
	for (int i = 0; client_resident_bytes() > most; i++) {
		CHECK(i < SETTLING && "memory is returned");
		usleep(10000);
	}
}

long client_task_count(void)
{
	struct sysinfo info;

	OK(ob_sys_sysinfo(&info));
	return info.procs;
}

static long count_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	long lines = 0;

	CHECK(file);
	for (int c; (c = getc(file)) != EOF; )
		lines += c == '\n';
	fclose(file);
	return lines;
}

struct client_belongings client_belongings(void)
{
	return (struct client_belongings){
		.descriptors = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.mappings = count_mappings(),
		.bytes = (long)client_resident_bytes(),
	};
}

/* The C library keeps stacks of threads that have ended, more or fewer. */
#define FEW_BYTES (2l << 20)
#define FEW_MAPPINGS 32

/* The host shows a thread for a moment after it was joined. */
static struct client_belongings settled_belongings(long threads)
{
	struct client_belongings now = client_belongings();

	for (int i = 0; now.threads > threads && i < SETTLING; i++) {
		usleep(10000);
		now = client_belongings();
	}
	return now;
}

void client_check_files_and_threads(struct client_belongings before)
{
	struct client_belongings now = settled_belongings(before.threads);

	CHECK_EQUAL(now.descriptors, before.descriptors);
	CHECK_EQUAL(now.threads, before.threads);
}

void client_check_nothing_is_left(struct client_belongings before)
{
	struct client_belongings now;

	client_check_files_and_threads(before);
	now = client_belongings();
	if (now.mappings > before.mappings + FEW_MAPPINGS)
		fprintf(stderr, "%ld mappings, not %ld\n", now.mappings, before.mappings);
	CHECK(now.mappings <= before.mappings + FEW_MAPPINGS);
	if (now.bytes > before.bytes + FEW_BYTES)
		fprintf(stderr, "%ld bytes more\n", now.bytes - before.bytes);
	CHECK(now.bytes <= before.bytes + FEW_BYTES);
}

void client_find_snapshot(const char *directory, char *path, size_t room)
{
	DIR *entries = opendir(directory);
	struct dirent *entry;
	int found = 0;

	CHECK(entries);
	while ((entry = readdir(entries))) {
		const char *suffix = strrchr(entry->d_name, '.');

		if (!suffix || strcmp(suffix, ".snapshot"))
			continue;
		CHECK((size_t)snprintf(path, room, "%s/%s", directory, entry->d_name) < room);
		found++;
	}
	closedir(entries);
	CHECK_EQUAL(found, 1);
}
