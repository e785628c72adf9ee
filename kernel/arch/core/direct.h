/* SPDX-License-Identifier: GPL-2.0-only */
/* System calls that direct.c answers. */
#ifndef OUTBOARD_CORE_DIRECT_H
#define OUTBOARD_CORE_DIRECT_H

#include <linux/types.h>

struct iovec;

long ob_sys_read(unsigned int fd, char __user *buffer, size_t size);
long ob_sys_write(unsigned int fd, const char __user *buffer, size_t size);
long ob_sys_pread64(unsigned int fd, char __user *buffer, size_t size, loff_t position);
long ob_sys_pwrite64(unsigned int fd, const char __user *buffer, size_t size, loff_t position);
long ob_sys_readv(unsigned long fd, const struct iovec __user *vector, unsigned long count);
long ob_sys_writev(unsigned long fd, const struct iovec __user *vector, unsigned long count);
long ob_sys_preadv(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		   unsigned long low, unsigned long high);
long ob_sys_pwritev(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		    unsigned long low, unsigned long high);
long ob_sys_preadv2(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		    unsigned long low, unsigned long high, rwf_t flags);
long ob_sys_pwritev2(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		     unsigned long low, unsigned long high, rwf_t flags);

#endif
