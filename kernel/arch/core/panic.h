/* SPDX-License-Identifier: GPL-2.0-only */
/* The end of a kernel that is broken: panic.c. */
#ifndef OUTBOARD_CORE_PANIC_H
#define OUTBOARD_CORE_PANIC_H

struct ob_fault;

void ob_panic_setup(void);
void ob_panic_check(void);
void __noreturn ob_panic_host(const char *text);
void __noreturn ob_die(const char *what, const struct ob_fault *fault);

#endif
