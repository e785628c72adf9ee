/* SPDX-License-Identifier: GPL-2.0-only */
/* The leader of the process that local clients are threads of: leader.c. */
#ifndef OUTBOARD_CORE_LEADER_H
#define OUTBOARD_CORE_LEADER_H

int ob_leader_main(void *unused);

#endif
