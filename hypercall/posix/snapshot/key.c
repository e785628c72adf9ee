// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the snapshot that fits a kernel.
 *
 * The key names everything that the memory of a booted kernel depends on:
 *  - the kernel image, and its address, which differs for each kernel of a process;
 *  - the library, or the program that it is linked into, down to the byte;
 *  - the archive of components, the place of the thread blocks, the configuration;
 *  - the processor, whose features kernel code may have tested.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/platform/x86.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "raw.h"
#include "snapshot.h"

#define LOG_WARNING 4
#define BUILD_ID_MOST 32

static bool not_used(struct ob_host *host, const char *why)
{
	ob_snapshot_report(host, 0, "not used: %s", why);
	return false;
}

/* The file that contains this library. The kernel image is another file. */
struct program {
	uint64_t layout;		/* hash of the segments, since a build id can be anything */
	uint32_t id_size;		/* 0: it has no build id */
	unsigned char id[BUILD_ID_MOST];
};

static void find_build_id(struct program *program, const char *notes, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)notes;
		size_t name = (note->n_namesz + 3) & ~3u;
		size_t room = sizeof(*note) + name + ((note->n_descsz + 3) & ~3u);

		if (room > size)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    note->n_descsz <= BUILD_ID_MOST && !memcmp(note + 1, "GNU", 4)) {
			program->id_size = note->n_descsz;
			memcpy(program->id, notes + sizeof(*note) + name, note->n_descsz);
			return;
		}
		notes += room;
		size -= room;
	}
}

/* This object is inside that file. */
static const char here;

static bool contains(const struct dl_phdr_info *info, const ElfW(Phdr) *segment, uintptr_t address)
{
	return segment->p_type == PT_LOAD &&
	       address - info->dlpi_addr - segment->p_vaddr < segment->p_memsz;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct program *program = argument;
	bool ours = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		ours |= contains(info, &info->dlpi_phdr[i], (uintptr_t)&here);
	if (!ours)
		return 0;
	program->layout = XXH3_64bits(info->dlpi_phdr, info->dlpi_phnum * sizeof(*info->dlpi_phdr));
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE && !program->id_size)
			find_build_id(program,
				      (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
				      info->dlpi_phdr[i].p_memsz);
	return 1;
}

/* A string that is built step by step. */
struct text {
	char bytes[2048];
	size_t length;
	bool full;
};

static __attribute__((format(printf, 2, 3))) void append(struct text *text, const char *format, ...)
{
	size_t room = sizeof(text->bytes) - text->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->bytes + text->length, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		text->full = true;
	else
		text->length += (size_t)length;
}

/*
 * What the processor has, and what of it can be used: the host may not save all registers. Leaves
 * out bits that differ between the processors of one machine. Uses the C library's copy: the CPUID
 * instruction is slow in a virtual machine.
 */
static void append_processor(struct text *key)
{
	const struct cpuid_feature *leaf1 = __x86_get_cpuid_feature_leaf(CPUID_INDEX_1);
	const struct cpuid_feature *leaf7 = __x86_get_cpuid_feature_leaf(CPUID_INDEX_7);
	enum { EAX, EBX, ECX, EDX };

	append(key, "processor %08x %08x %08x", leaf1->cpuid_array[EAX],
	       leaf1->cpuid_array[ECX] & ~(1u << 27), leaf1->cpuid_array[EDX]);
	append(key, " %08x %08x %08x", leaf7->cpuid_array[EBX],
	       leaf7->cpuid_array[ECX] & ~(1u << 4), leaf7->cpuid_array[EDX]);
	append(key, " usable %08x %08x\n", leaf1->active_array[ECX] & ~(1u << 27),
	       leaf7->active_array[EBX]);
}

static void append_id(struct text *key, const char *name, const unsigned char *id, uint32_t size)
{
	append(key, "%s ", name);
	for (uint32_t i = 0; i < size; i++)
		append(key, "%02x", id[i]);
	append(key, "\n");
}

static void make_key(struct text *key, const struct program *program,
		     const struct ob_platform_kernel *kernel, struct ob_host *host)
{
	/* The kernel's coroutines may have this address in their registers. */
	int64_t thread_block = ob_platform_thread_block(host);
	const struct ob_boot_parameters *parameters = kernel->parameters;

	append_id(key, "build id", program->id, program->id_size);
	append_id(key, "kernel", kernel->id, kernel->id_size);
	append(key, "address %llx\n", (unsigned long long)kernel->address);
	append(key, "thread block %lld\n", (long long)thread_block);
	append(key, "layout %016llx\n", (unsigned long long)program->layout);
	append(key, "vcpus %u\nmemory %llu\nlog level %u\n", parameters->vcpus,
	       (unsigned long long)parameters->memory, parameters->log_level);
	append_processor(key);
	append(key, "components %s\n", parameters->components ? parameters->components : "");
	append(key, "spare interfaces %u\n", parameters->spare_interfaces);
	append(key, "archive %s\n", ob_posix_components_identity());
	append(key, "command line %s\n", parameters->command_line ? parameters->command_line : "");
}

/*
 * File systems whose files may change or vanish while they are mapped: network and FUSE. The
 * numbers are from linux/magic.h and from the file systems' own headers.
 */
static bool is_remote(int fd)
{
	static const unsigned long remote[] = {
		0x6969 /* nfs */,      0xff534d42 /* cifs */, 0xfe534d42 /* smb2 */,
		0x517b /* smb */,      0x65735546 /* fuse */, 0x01021997 /* 9p */,
		0x00c36400 /* ceph */, 0x5346414f /* afs */,  0x73757245 /* coda */,
	};
	struct statfs status;

	if (fstatfs(fd, &status))
		return true;
	for (size_t i = 0; i < sizeof(remote) / sizeof(*remote); i++)
		if ((unsigned long)status.f_type == remote[i])
			return true;
	return false;
}

static bool is_noexec(int fd)
{
	struct statvfs status;

	return fstatvfs(fd, &status) || status.f_flag & ST_NOEXEC;
}

/* Returns what is wrong with the directory, or NULL. Nobody else may create a file there. */
static const char *fault_of(int fd)
{
	struct stat directory;

	if (fstat(fd, &directory) || directory.st_uid != geteuid() || directory.st_mode & 022)
		return "the directory is not the user's alone";
	if (is_noexec(fd))
		return "the directory's file system is mounted noexec";
	if (is_remote(fd))
		return "the directory's file system is not local";
	return NULL;
}

static int open_directory(struct ob_host *host, const char *path)
{
	int fd = raw_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const char *fault;

	if (fd < 0) {
		not_used(host, "the directory cannot be opened");
		return -1;
	}
	fault = fault_of(fd);
	if (!fault)
		return fd;
	not_used(host, fault);
	raw_close(fd);
	return -1;
}

/* Why this process cannot use any snapshot, or NULL. */
static const char *fault_of_process(const struct program *program,
				    const struct ob_platform_kernel *kernel)
{
	const char *wish = secure_getenv("OUTBOARD_SNAPSHOT");

	if (wish && !strcmp(wish, "off"))
		return "OUTBOARD_SNAPSHOT is off";
	if (getauxval(AT_SECURE))
		return "the program has more rights than who started it";
	if (!program->id_size)
		return "the program, or the library that it uses, has no build id";
	if (!kernel->id_size)
		return "the kernel image has no build id";
	if (!kernel->placed)
		return "the addresses for the kernel image are taken";
	if (kernel->parameters->log_level > LOG_WARNING)
		return "the log is wanted";
	return NULL;
}

bool ob_platform_snapshot_use(struct ob_host *host, const char *directory,
			      const struct ob_platform_kernel *kernel)
{
	struct program program = { 0 };
	struct text key = { .length = 0 };
	const char *fault;
	char name[40];
	int fd;

	if (host->ram.is_shared)
		return not_used(host, "other processes share the kernel's memory");
	dl_iterate_phdr(look_at, &program);
	fault = fault_of_process(&program, kernel);
	if (fault)
		return not_used(host, fault);
	make_key(&key, &program, kernel, host);
	if (key.full)
		return not_used(host, "the configuration is too long");
	fd = open_directory(host, directory);
	if (fd < 0)
		return false;
	snprintf(name, sizeof(name), "%016llx.snapshot",
		 (unsigned long long)XXH3_64bits(key.bytes, key.length));
	if (ob_posix_snapshot_request(host, fd, name, key.bytes)) {
		raw_close(fd);
		return false;
	}
	ob_posix_choose_place(host);
	return true;
}
