/* SPDX-License-Identifier: GPL-2.0-only */
/* Compiled as C and as C++: our headers beside all that declare what they mention. */
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/epoll.h>
#include <poll.h>
#include <sys/uio.h>
#include <sys/statfs.h>
#include <sys/vfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <utime.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <signal.h>
#include <sched.h>
#include <mqueue.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/rseq.h>
#include <outboard/outboard.h>
#include <outboard/net.h>
#include <outboard/syscall.h>
#include <outboard/syscalls.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>

static inline long use_all(struct stat *status, struct timespec *time, sigset_t *set,
			   struct utsname *name)
{
	return ob_sys_uname(name) + ob_sys_rt_sigprocmask(0, set, set, 8) +
	       ob_sys_nanosleep(time, time) + ob_sys_newfstatat(AT_FDCWD, "/", status, 0) +
	       OB_SYS_read;
}
