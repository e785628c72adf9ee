// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory that the cgroups of this process leave it: containers, systemd's units and jobs have
 * such limits. The host kills a process that exceeds one, and cannot take back the kernel's RAM.
 *
 * /proc/self/cgroup names a cgroup in each hierarchy, /proc/self/mountinfo says where a hierarchy,
 * or a part of it, is mounted. All cgroups from that of the process up to the mount's root count.
 * A sandbox hides these files, so the answer from before counts then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "raw.h"

#define NO_LIMIT UINT64_MAX

/* The files of a cgroup, by version. */
struct version {
	const char *limits[2];
	const char *used;
	const char *cache[2];		/* of memory.stat: what the host can take back */
};

static const struct version v1 = {
	{ "memory.limit_in_bytes", NULL }, "memory.usage_in_bytes",
	{ "total_active_file ", "total_inactive_file " },
};
static const struct version v2 = {
	{ "memory.max", "memory.high" }, "memory.current", { "active_file ", "inactive_file " },
};

/* A whole file, with a NUL. NULL: it cannot be read. */
static char *read_text(const char *path)
{
	size_t size = 0, room = 4096;
	int fd = raw_open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(room);
	ssize_t got = 1;

	while (text && got > 0) {
		char *larger = size + 1 < room ? text : realloc(text, room *= 2);

		got = larger ? raw_read(fd, larger + size, room - size - 1) : -1;
		text = larger ? larger : text;
		size += got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0)
		raw_close(fd);
	if (text && got < 0) {
		free(text);
		return NULL;
	}
	if (text)
		text[size] = '\0';
	return text;
}

static char *read_file(const char *directory, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return read_text(path);
}

/* The number of a file. `otherwise`: there is no such file, or it says "max". */
static uint64_t number_of(const char *directory, const char *name, uint64_t otherwise)
{
	char *text = read_file(directory, name);
	uint64_t number = otherwise;

	if (text && *text >= '0' && *text <= '9')
		number = strtoull(text, NULL, 10);
	free(text);
	return number;
}

/* Adds up the lines of memory.stat that begin with these names. */
static uint64_t cache_of(const char *directory, const struct version *version)
{
	char *text = read_file(directory, "memory.stat"), *rest = text, *line;
	uint64_t bytes = 0;

	while ((line = strsep(&rest, "\n")))
		for (int i = 0; i < 2; i++)
			if (!strncmp(line, version->cache[i], strlen(version->cache[i])))
				bytes += strtoull(line + strlen(version->cache[i]), NULL, 10);
	free(text);
	return bytes;
}

/* What one cgroup leaves its processes. */
static uint64_t left_in(const char *directory, const struct version *version)
{
	uint64_t limit = NO_LIMIT, used, cache;

	for (int i = 0; i < 2 && version->limits[i]; i++) {
		uint64_t number = number_of(directory, version->limits[i], NO_LIMIT);

		limit = number < limit ? number : limit;
	}
	if (limit == NO_LIMIT)
		return NO_LIMIT;
	used = number_of(directory, version->used, 0);
	cache = cache_of(directory, version);
	used -= cache < used ? cache : used;
	return used < limit ? limit - used : 0;
}

/* "/a/b" below "/a" is "/b". NULL: it is not below. */
static const char *below(const char *path, const char *root)
{
	size_t length = strcmp(root, "/") ? strlen(root) : 0;

	if (strncmp(path, root, length) || (path[length] && path[length] != '/'))
		return NULL;
	return path + length;
}

/*
 * `mount`: where the hierarchy, or its part `root`, is mounted. `path`: the cgroup of the process.
 * A cgroup that is not below the root, or in another namespace, is not visible: the root counts.
 */
static uint64_t left_below(const char *mount, const char *root, const char *path,
			   const struct version *version)
{
	const char *rest = strstr(path, "/..") ? NULL : below(path, root);
	char directory[PATH_MAX];
	uint64_t least = NO_LIMIT;
	int length = snprintf(directory, sizeof(directory), "%s%s", mount, rest ? rest : "");

	if ((size_t)length >= sizeof(directory))
		return NO_LIMIT;
	for (;;) {
		uint64_t left = left_in(directory, version);
		char *slash;

		least = left < least ? left : least;
		slash = strrchr(directory + strlen(mount), '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* mountinfo writes a blank as \040. */
static void decode(char *text)
{
	char *to = text;

	while (*text) {
		unsigned int byte;

		if (*text == '\\' && sscanf(text, "\\%3o", &byte) == 1) {
			*to++ = (char)byte;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list; list = strchr(list, ','), list = list ? list + 1 : NULL)
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	return false;
}

/* The cgroup of a line "0::/path" or "4:cpu,memory:/path" that belongs to this version, or NULL. */
static const char *path_of_line(char *line, const struct version *version)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(++controllers, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = '\0';
	if (version == &v2 ? *controllers != '\0' : !has_word(controllers, "memory"))
		return NULL;
	return path;
}

/* The limits in one mounted hierarchy. */
static uint64_t left_in_hierarchy(const char *mount, const char *root,
				  const struct version *version, const char *cgroups)
{
	char *copy = strdup(cgroups), *rest = copy, *line;
	uint64_t least = NO_LIMIT;

	while ((line = strsep(&rest, "\n"))) {
		const char *path = path_of_line(line, version);
		uint64_t left = path ? left_below(mount, root, path, version) : NO_LIMIT;

		least = left < least ? left : least;
	}
	free(copy);
	return least;
}

/* A line of mountinfo: ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE OPTIONS */
static uint64_t left_in_mount(char *line, const char *cgroups)
{
	char *type = strstr(line, " - "), *fields[5], *rest = line, *options;

	if (!type)
		return NO_LIMIT;
	*type = '\0';
	type += 3;
	for (int i = 0; i < 5; i++)
		if (!(fields[i] = strsep(&rest, " ")))
			return NO_LIMIT;
	decode(fields[3]);
	decode(fields[4]);
	if (!strncmp(type, "cgroup2 ", 8))
		return left_in_hierarchy(fields[4], fields[3], &v2, cgroups);
	options = strrchr(type, ' ');
	if (!strncmp(type, "cgroup ", 7) && options && has_word(options + 1, "memory"))
		return left_in_hierarchy(fields[4], fields[3], &v1, cgroups);
	return NO_LIMIT;
}

/* False: the host's files are hidden. */
static bool look(uint64_t *left)
{
	char *cgroups = read_text("/proc/self/cgroup");
	char *mounts = cgroups ? read_text("/proc/self/mountinfo") : NULL, *rest = mounts, *line;
	bool visible = mounts;

	*left = NO_LIMIT;
	while ((line = strsep(&rest, "\n"))) {
		uint64_t here = left_in_mount(line, cgroups);

		*left = here < *left ? here : *left;
	}
	free(mounts);
	free(cgroups);
	return visible;
}

uint64_t ob_platform_memory_left(void)
{
	static uint64_t seen = NO_LIMIT;	/* atomic */
	uint64_t left;

	if (look(&left))
		__atomic_store_n(&seen, left, __ATOMIC_RELAXED);
	return __atomic_load_n(&seen, __ATOMIC_RELAXED);
}
