/* SPDX-License-Identifier: GPL-2.0-only */
/* Back-ends write lines to the kernel's log. */
#ifndef OUTBOARD_DEVICES_NET_REPORT_H
#define OUTBOARD_DEVICES_NET_REPORT_H

#include <outboard/hypercall.h>

/* Write a line to the log, as a warning or as information. */
void ob_net_warn(struct ob_host *host, const char *text);
void ob_net_inform(struct ob_host *host, const char *text);

#endif
