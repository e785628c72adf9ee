// SPDX-License-Identifier: GPL-2.0-only
/* A library that a program loads while its threads run: each has a variable of it. */
static __thread long local = 42;

long *address_of_local(void);

long *address_of_local(void)
{
	return &local;
}
