// SPDX-License-Identifier: GPL-2.0-only
/* Prints where each member of the tables between a kernel image and its host is. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <outboard/tables.h>

#define MEMBER(group, name) \
	printf("hypercall %s.%s at %zu\n", #group, #name, offsetof(struct ob_host_##group, name));
#define GROUP(name, members, required, error)					\
	printf("group %s at %zu, %s\n", #name, offsetof(struct ob_hypercalls, name), \
	       (required) ? "required" : "optional");				\
	members(MEMBER, name)
#define UPCALL(name) printf("upcall %s at %zu\n", #name, offsetof(struct ob_upcalls, name));

int main(void)
{
	printf("version %d\n", OB_INTERFACE_VERSION);
	OB_HOST_GROUPS(GROUP)
	UPCALL(version_magic)
	UPCALL(kept)
	UPCALL(kept_end)
	OB_UPCALLS(UPCALL)
	printf("thread block of %d bytes\n", OB_THREAD_BLOCK_BYTES);
	return 0;
}
