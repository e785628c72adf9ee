/* SPDX-License-Identifier: GPL-2.0-only */
/* Halt, step 1: end_clients.c. */
#ifndef OUTBOARD_CORE_END_CLIENTS_H
#define OUTBOARD_CORE_END_CLIENTS_H

unsigned int ob_clients_end(void);

#endif
