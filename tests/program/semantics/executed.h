/* SPDX-License-Identifier: GPL-2.0-only */
/* This program again, as a program that a case executes: semantics EXECUTED WORD ... */
#ifndef OUTBOARD_TESTS_EXECUTED_H
#define OUTBOARD_TESTS_EXECUTED_H

#define EXECUTED "executed"

/* Does what the first word says. Returns the exit status. */
int executed(char **words);

#endif
