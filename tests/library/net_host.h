/* SPDX-License-Identifier: GPL-2.0-only */
/* net_host.c: the hypercalls that back-ends of the network use, without the platform. */
#ifndef OUTBOARD_TESTS_NET_HOST_H
#define OUTBOARD_TESTS_NET_HOST_H

#include <stdio.h>

/* Where lines of the log and states of the link go; NULL: standard error. */
extern FILE *net_host_output;

/* Prints a line. */
__attribute__((format(printf, 1, 2)))
void net_host_print(const char *format, ...);

#endif
