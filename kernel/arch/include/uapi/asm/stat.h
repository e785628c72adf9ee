/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * struct stat as the C libraries of x86-64 hosts lay it out, so that clients
 * can use their own <sys/stat.h>.
 */
#ifndef _UAPI_ASM_OUTBOARD_STAT_H
#define _UAPI_ASM_OUTBOARD_STAT_H

#define STAT_HAVE_NSEC 1

struct stat {
	unsigned long st_dev;
	unsigned long st_ino;
	unsigned long st_nlink;
	unsigned int st_mode;
	unsigned int st_uid;
	unsigned int st_gid;
	unsigned int __padding;
	unsigned long st_rdev;
	long st_size;
	long st_blksize;
	long st_blocks;
	unsigned long st_atime;
	unsigned long st_atime_nsec;
	unsigned long st_mtime;
	unsigned long st_mtime_nsec;
	unsigned long st_ctime;
	unsigned long st_ctime_nsec;
	long __reserved[3];
};
#endif
