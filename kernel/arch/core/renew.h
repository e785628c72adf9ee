/* SPDX-License-Identifier: GPL-2.0-only */
/* Secrets that each start from a snapshot renews: renew.c. */
#ifndef OUTBOARD_CORE_RENEW_H
#define OUTBOARD_CORE_RENEW_H

#ifdef CONFIG_OUTBOARD_SNAPSHOT
/* Before the kernel is saved, notes what has to be renewed. Blocks. */
void ob_secrets_note(void);

/* Renews all secrets that Linux chose before and on which nothing depends. Blocks. */
void ob_renew_secrets(void);
#else
static inline void ob_secrets_note(void)
{
}
#endif

#endif
