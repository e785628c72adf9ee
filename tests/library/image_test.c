// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel image: refused files, where it lies in memory, and its protections. test_image.py runs
 * this program. Usage: image_test ADDRESS WHAT..., where ADDRESS is the image's preferred one, and
 * WHAT:
 *
 *   refused GOOD BAD...   each BAD image is refused and leaves nothing behind; GOOD boots
 *   prepared BAD          BAD is refused after ob_prepare(); the library's own boots
 *   own FILE              boots the library's own image, whose text is mapped from FILE
 *   unlinked FILE         the same after FILE was removed: the text is a copy
 *   moved COMPONENT       boots although the image's address is taken; loads COMPONENT
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

static void *preferred;		/* address of the image, as test_image.py reads it from the file */

static int boot(const char *kernel)
{
	const struct ob_config config = {
		.size = sizeof(config),
		.vcpus = 2,
		.memory = 256 << 20,
		.log_level = OB_LOG_DEFAULT,
		.kernel = kernel,
	};

	return ob_boot(&config);
}

/* One line for each file, which test_image.py compares. */
static void refuse(const char *path)
{
	int error = boot(path);

	CHECK(error < 0);
	printf("%d %s\n", -error, ob_boot_error());
	CHECK_EQUAL(ob_syscall(OB_SYS_getppid), -ENODEV);
}

static void check_refused(char **paths)
{
	struct client_belongings before;

	/* The first time, the C library and others allocate. */
	CHECK(boot(paths[1]) < 0);
	before = client_belongings();
	for (int i = 1; paths[i]; i++) {
		refuse(paths[i]);
		CHECK_EQUAL(client_belongings().mappings, before.mappings);
		client_check_nothing_is_left(before);
	}
	CHECK_EQUAL(boot(paths[0]), 0);
}

/* The next boot neither removes nor uses the remains of a refused image. */
static void check_prepared(const char *path)
{
	struct stat before, after;

	CHECK_EQUAL(fstat(STDIN_FILENO, &before), 0);
	ob_prepare();
	refuse(path);
	CHECK_EQUAL(boot(NULL), 0);
	CHECK_EQUAL(fstat(STDIN_FILENO, &after), 0);
	CHECK(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
}

struct mapping {
	unsigned long start, end;
	char protection[8];
	char path[512];
};

/* The mapping of that address. */
static struct mapping find_mapping(unsigned long address)
{
	FILE *file = fopen("/proc/self/maps", "r");
	struct mapping mapping;
	char line[1024];

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		mapping.path[0] = '\0';
		CHECK(sscanf(line, "%lx-%lx %7s %*s %*s %*s %511s", &mapping.start, &mapping.end,
			     mapping.protection, mapping.path) >= 3);
		if (address < mapping.end && address >= mapping.start) {
			fclose(file);
			return mapping;
		}
	}
	CHECK(!"no mapping of this address");
	return mapping;
}

/* Each segment of the image has the protection that the file asks for. */
static void check_protections(const char *address)
{
	const Elf64_Ehdr *header = (const void *)address;
	const Elf64_Phdr *segments = (const void *)(address + header->e_phoff);
	struct mapping mapping;

	CHECK(!memcmp(address, ELFMAG, SELFMAG));
	for (int i = 0; i < header->e_phnum; i++) {
		char expected[] = "---p";

		if (segments[i].p_type != PT_LOAD)
			continue;
		expected[0] = segments[i].p_flags & PF_R ? 'r' : '-';
		expected[1] = segments[i].p_flags & PF_W ? 'w' : '-';
		expected[2] = segments[i].p_flags & PF_X ? 'x' : '-';
		mapping = find_mapping((unsigned long)address + segments[i].p_vaddr -
				       segments[0].p_vaddr);
		CHECK_EQUAL(strcmp(mapping.protection, expected), 0);
	}
}

static void check_own(const char *file, bool unlinked)
{
	struct mapping mapping;

	if (unlinked)
		CHECK_EQUAL(unlink(file), 0);
	CHECK_EQUAL(boot(NULL), 0);
	mapping = find_mapping((unsigned long)preferred);
	CHECK_EQUAL(strcmp(mapping.path, unlinked ? "" : file), 0);
	check_protections(preferred);
}

/* gdb stops here. */
__attribute__((noinline)) void image_has_moved(void)
{
	__asm__ volatile("" : : : "memory");
}

static void check_moved(const char *component)
{
	void *taken = mmap(preferred, 4096, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	CHECK(taken == preferred);
	CHECK_EQUAL(boot(NULL), 0);
	CHECK_EQUAL(ob_component_load(component, NULL), 0);
	image_has_moved();
}

int main(int count, char **arguments)
{
	CHECK(count >= 4);
	preferred = (void *)strtoul(arguments[1], NULL, 16);
	if (!strcmp(arguments[2], "refused"))
		check_refused(arguments + 3);
	else if (!strcmp(arguments[2], "prepared"))
		check_prepared(arguments[3]);
	else if (!strcmp(arguments[2], "moved"))
		check_moved(arguments[3]);
	else
		check_own(arguments[3], !strcmp(arguments[2], "unlinked"));
	CHECK(ob_syscall(OB_SYS_getpid) > 0);
	client_tmpfs("/t");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
