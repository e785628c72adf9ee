// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints what Linux keeps secret, a name and a value a line, for the caller to compare between two
 * starts of one snapshot. Usage: secrets_test MODULE, the one of secrets/secrets.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kcmp.h>
#include <unistd.h>

#include "client.h"

#define FILES 12

static void print_values(void)
{
	char text[1024];
	int file = (int)OK(
		ob_sys_openat(AT_FDCWD, "/sys/module/secrets/parameters/values", O_RDONLY, 0));
	long length = OK(ob_sys_read(file, text, sizeof(text) - 1));

	text[length] = '\0';
	printf("%s", text);
	OK(ob_sys_close(file));
}

/* How kcmp(2) orders open files: by their addresses, which a secret hides. */
static void print_order(void)
{
	long self = ob_sys_getpid();
	int files[FILES];

	for (int i = 0; i < FILES; i++)
		files[i] = (int)OK(ob_sys_openat(AT_FDCWD, "/", O_RDONLY, 0));
	printf("order ");
	for (int i = 0; i < FILES; i++)
		for (int j = 0; j < i; j++)
			printf("%ld", OK(ob_sys_kcmp((int)self, (int)self, KCMP_FILE,
						     (unsigned long)files[i],
						     (unsigned long)files[j])));
	printf("\n");
}

int main(int count, char *arguments[])
{
	CHECK_EQUAL(count, 2);
	client_boot(2);
	client_load(arguments[1], "");
	print_values();
	print_order();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
