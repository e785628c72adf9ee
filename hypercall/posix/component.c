// SPDX-License-Identifier: GPL-2.0-only
/*
 * Components: the archive of modules (kernel/build/components.py describes its layout).
 *
 * The archive is linked into the program (liboutboard-components.a), or is a file: the one that the
 * environment's OUTBOARD_COMPONENTS names, or outboard-components beside the library. The library
 * trusts it as much as itself. All the same, each offset is checked when the archive is opened.
 * That happens before the kernel boots. The archive stays mapped, and is only read from then on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "raw.h"

#define MAGIC "obcomp\0\2"
#define FILE_NAME "outboard-components"
#define WANTED (1u << 31)

struct table {
	uint32_t count;
	uint32_t offset;
};

struct header {
	char magic[8];
	uint64_t size;
	struct table modules;
	struct table aliases;
	struct table orders;
	struct table nodes;
};

struct module {
	uint32_t name;
	uint32_t reserved;
	uint64_t image;
	uint64_t size;
};

struct alias {
	uint32_t name;
	uint32_t first;
	uint32_t count;
};

struct node {
	uint32_t name;
	uint32_t is_block;
	uint32_t major;
	uint32_t minor;
};

/* In programs that are linked with liboutboard-components.a. */
extern const struct header ob_component_archive __attribute__((weak, visibility("hidden")));

static const struct header *archive;	/* NULL: there is none */
static char problem[PATH_MAX + 64];	/* why there is none */
static char identity[160] = "own";	/* of the archive's file, if it is one */

static const void *at(uint64_t offset)
{
	return (const char *)archive + offset;
}

static bool table_is_inside(const struct header *header, struct table table, uint64_t row)
{
	return table.offset % 4 == 0 && table.offset <= header->size &&
	       table.count <= (header->size - table.offset) / row;
}

/* A name must begin inside the archive and end with a NUL before its end. */
static bool name_is_inside(const struct header *header, uint32_t name)
{
	return name < header->size &&
	       memchr((const char *)header + name, '\0', header->size - name);
}

static bool rows_are_inside(const struct header *header)
{
	const char *start = (const char *)header;
	const struct module *modules = (const void *)(start + header->modules.offset);
	const struct alias *aliases = (const void *)(start + header->aliases.offset);
	const uint32_t *orders = (const void *)(start + header->orders.offset);
	const struct node *nodes = (const void *)(start + header->nodes.offset);

	for (uint32_t i = 0; i < header->modules.count; i++)
		if (!name_is_inside(header, modules[i].name) || modules[i].image > header->size ||
		    modules[i].size > header->size - modules[i].image)
			return false;
	for (uint32_t i = 0; i < header->aliases.count; i++)
		if (!name_is_inside(header, aliases[i].name) ||
		    aliases[i].first > header->orders.count ||
		    aliases[i].count > header->orders.count - aliases[i].first)
			return false;
	for (uint32_t i = 0; i < header->orders.count; i++)
		if ((orders[i] & ~WANTED) >= header->modules.count)
			return false;
	for (uint32_t i = 0; i < header->nodes.count; i++)
		if (!name_is_inside(header, nodes[i].name))
			return false;
	return true;
}

static bool is_archive(const struct header *header, uint64_t size)
{
	return size >= sizeof(*header) && !memcmp(header->magic, MAGIC, sizeof(header->magic)) &&
	       header->size == size && header->modules.offset % sizeof(uint64_t) == 0 &&
	       table_is_inside(header, header->modules, sizeof(struct module)) &&
	       table_is_inside(header, header->aliases, sizeof(struct alias)) &&
	       table_is_inside(header, header->orders, sizeof(uint32_t)) &&
	       table_is_inside(header, header->nodes, sizeof(struct node)) &&
	       rows_are_inside(header);
}

static const struct header *map_file(int file, uint64_t size)
{
	void *start = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);

	if (start == MAP_FAILED)
		return NULL;
	if (is_archive(start, size))
		return start;
	munmap(start, size);
	return NULL;
}

/* To write to the file, or to replace it, changes one of these values. */
static void note_identity(const struct stat *status)
{
	snprintf(identity, sizeof(identity), "file %llx:%llx of %lld bytes, %lld.%09ld, %lld.%09ld",
		 (unsigned long long)status->st_dev, (unsigned long long)status->st_ino,
		 (long long)status->st_size,
		 (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec,
		 (long long)status->st_ctim.tv_sec, status->st_ctim.tv_nsec);
}

static const struct header *open_file(const char *path)
{
	const struct header *found = NULL;
	struct stat status;
	int file = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (file < 0) {
		snprintf(problem, sizeof(problem), "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!fstat(file, &status) && S_ISREG(status.st_mode) && status.st_size > 0)
		found = map_file(file, (uint64_t)status.st_size);
	if (found)
		note_identity(&status);
	else
		snprintf(problem, sizeof(problem), "%s: not an archive of components, or damaged",
			 path);
	raw_close(file);
	return found;
}

static const struct header *open_beside_library(void)
{
	char path[PATH_MAX];
	const char *slash;
	Dl_info info;

	if (!dladdr((const void *)&ob_host_component_find, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	if (!slash ||
	    (size_t)snprintf(path, sizeof(path), "%.*s/" FILE_NAME, (int)(slash - info.dli_fname),
			     info.dli_fname) >= sizeof(path))
		return NULL;
	return open_file(path);
}

static void find_archive(void)
{
	const char *chosen = secure_getenv("OUTBOARD_COMPONENTS");

	if (chosen)
		archive = open_file(chosen);
	else if (&ob_component_archive)
		archive = &ob_component_archive;
	else
		archive = open_beside_library();
}

void ob_posix_components_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_archive);
}

const char *ob_posix_components_identity(void)
{
	return archive ? identity : "none";
}

/* Compares as Linux does: '-' and '_' are equal. The archive has only '_'. */
static int compare_names(const char *asked, const char *known)
{
	for (; *asked && (*asked == '-' ? '_' : *asked) == *known; asked++)
		known++;
	return (unsigned char)(*asked == '-' ? '_' : *asked) - (unsigned char)*known;
}

static const struct alias *find_alias(const char *name)
{
	const struct alias *aliases = at(archive->aliases.offset);
	uint32_t low = 0, high = archive->aliases.count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = compare_names(name, at(aliases[middle].name));

		if (!order)
			return &aliases[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static void describe(const struct module *module, bool wanted, struct ob_component *component)
{
	*component = (struct ob_component){
		.name = at(module->name),
		.image = at(module->image),
		.size = module->size,
		.wanted = wanted,
	};
}

int ob_host_component_find(struct ob_host *host, const char *name, uint32_t index,
			   struct ob_component *component)
{
	const struct alias *alias = archive ? find_alias(name) : NULL;
	const uint32_t *orders;

	(void)host;
	if (!alias || index >= alias->count)
		return -ENOENT;
	orders = (const uint32_t *)at(archive->orders.offset) + alias->first;
	describe((const struct module *)at(archive->modules.offset) + (orders[index] & ~WANTED),
		 orders[index] & WANTED, component);
	return 0;
}

int ob_host_component_node(struct ob_host *host, uint32_t index, struct ob_component_node *node)
{
	const struct node *found;

	(void)host;
	if (!archive || index >= archive->nodes.count)
		return -ENOENT;
	found = (const struct node *)at(archive->nodes.offset) + index;
	*node = (struct ob_component_node){
		.name = at(found->name),
		.is_block = found->is_block,
		.major = found->major,
		.minor = found->minor,
	};
	return 0;
}

const char *ob_platform_components_problem(void)
{
	ob_posix_components_find();
	return archive ? NULL : problem;
}

bool ob_platform_component_is_known(const char *name)
{
	struct ob_component unused;

	ob_posix_components_find();
	return !ob_host_component_find(NULL, name, 0, &unused);
}

int ob_platform_component(uint32_t index, struct ob_component *component)
{
	ob_posix_components_find();
	if (!archive || index >= archive->modules.count)
		return -ENOENT;
	describe((const struct module *)at(archive->modules.offset) + index, true, component);
	return 0;
}
