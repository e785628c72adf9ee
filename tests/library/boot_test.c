// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot and halt: what is refused, what can be done only once, what the library says about itself.
 * Argument: an ext4 image.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "client.h"

#define COMMAND_LINE_MOST 768	/* as the header says */

static void refused(struct ob_config config, const char *reason)
{
	CHECK_EQUAL(ob_boot(&config), -EINVAL);
	if (!strstr(ob_boot_error(), reason))
		fprintf(stderr, "the reason is: %s\n", ob_boot_error());
	CHECK(strstr(ob_boot_error(), reason));
}

static void bad_configurations(void)
{
	struct ob_config config = { .size = sizeof(config), .log_level = OB_LOG_DEFAULT }, bad;
	char words[COMMAND_LINE_MOST + 2] = "";

	CHECK(!*ob_boot_error());
	bad = config;
	bad.size = 3;
	refused(bad, "size");
	bad = config;
	bad.vcpus = 65;
	refused(bad, "vcpus is 65");
	bad = config;
	bad.memory = 1 << 20;
	refused(bad, "memory is 1048576");
	bad = config;
	bad.log_level = 8;
	refused(bad, "log_level is 8");
	memset(words, 'x', COMMAND_LINE_MOST + 1);
	bad = config;
	bad.command_line = words;
	refused(bad, "command_line has 769");
	setenv("OUTBOARD_LOG", "loud", 1);
	refused(config, "OUTBOARD_LOG");
	unsetenv("OUTBOARD_LOG");
}

static void nothing_runs(void)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .path = "/dev/null" };

	CHECK_EQUAL(ob_syscall(OB_SYS_getppid), -ENODEV);
	errno = 0;
	CHECK_EQUAL(ob_sys_getppid(), -1);
	CHECK_EQUAL(errno, ENODEV);
	CHECK_EQUAL(ob_disk_add(&disk, NULL), -ENODEV);
	CHECK_EQUAL(ob_disk_remove(0), -ENODEV);
	CHECK_EQUAL(ob_halt(), -ENODEV);
}

static void bad_arguments(const char *image)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .path = image }, bad;
	int number;

	CHECK_EQUAL(ob_disk_add(NULL, NULL), -EINVAL);
	CHECK(strstr(ob_disk_error(), "NULL"));
	bad = disk;
	bad.size = 1;
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -EINVAL);
	bad = disk;
	bad.path = NULL;
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -EINVAL);
	bad = disk;
	bad.flags = 64;
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -EINVAL);
	bad = disk;
	bad.sector_size = 1024;
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -EINVAL);
	bad = disk;
	bad.path = "/nowhere/at/all";
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -ENOENT);
	CHECK(!strcmp(ob_disk_error(), "/nowhere/at/all: No such file or directory"));
	bad.path = "/";
	CHECK_EQUAL(ob_disk_add(&bad, NULL), -EISDIR);
	CHECK_EQUAL(ob_disk_remove(-1), -ENOENT);
	CHECK_EQUAL(ob_disk_remove(12345), -ENOENT);
	CHECK(!strcmp(ob_disk_error(), "disk 12345: there is no such disk"));
	CHECK_EQUAL(ob_interrupt(-1), -ESRCH);
	CHECK_EQUAL(ob_component_list(NULL, NULL), -EINVAL);
	CHECK_EQUAL(ob_component_load_file(NULL, NULL), -EINVAL);
	CHECK_EQUAL(ob_component_unload(NULL), -ENOENT);
	CHECK_EQUAL(ob_component_load("", NULL), -ENOENT);

	number = ob_disk_add(&disk, NULL);
	CHECK(number >= 0);
	CHECK_EQUAL(ob_disk_error()[0], '\0');
	CHECK_EQUAL(ob_disk_add(&disk, NULL), -EBUSY);
	CHECK(strstr(ob_disk_error(), "or is a disk of this one already"));
	CHECK_EQUAL(ob_disk_remove(number), 0);
	CHECK_EQUAL(ob_disk_remove(number), -ENOENT);
}

static void mounted_disk_is_busy(const char *image)
{
	struct statfs status;
	int disk = client_mount(image, "ext4", "/disk");

	OK(ob_sys_statfs("/disk", &status));
	CHECK_EQUAL(status.f_type, 0xef53);
	CHECK_EQUAL(ob_disk_remove(disk), -EBUSY);
	OK(ob_sys_umount2("/disk", 0));
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	/* This one is mounted when the kernel halts. */
	client_mount(image, "ext4", "/disk2");
	OK(ob_sys_mkdir("/disk2/made-by-boot-test", 0755));
}

static void about_itself(void)
{
	CHECK(strchr(ob_version(), '.'));
	CHECK(!strncmp(ob_kernel_release(), "6.", 2));
	CHECK(!strcmp(ob_kernel_config("CONFIG_OUTBOARD"), "y"));
	CHECK(!ob_kernel_config("CONFIG_NO_SUCH_OPTION"));
	CHECK(!ob_kernel_config("CONFIG_"));
	CHECK(!ob_kernel_config(""));
	CHECK(!ob_kernel_config(NULL));
	CHECK(strlen(ob_profile()) > 0);
}

/*
 * The longest command line that is taken arrives as it is, from a program that was built before
 * `panic` existed.
 */
static void boot_with_all_words(void)
{
	struct ob_config config = { .size = offsetof(struct ob_config, panic),
				    .memory = 512ull << 20,
				    .log_level = OB_LOG_DEFAULT };
	char words[COMMAND_LINE_MOST + 1] = "", read[4096] = "";
	long file;

	memset(words, 'x', COMMAND_LINE_MOST);
	memcpy(words + COMMAND_LINE_MOST - 8, " te=last", 8);
	config.command_line = words;
	CHECK_EQUAL(ob_boot(&config), 0);
	file = OK(ob_sys_openat(AT_FDCWD, "/proc/cmdline", O_RDONLY, 0));
	OK(ob_sys_read((unsigned int)file, read, sizeof(read) - 1));
	OK(ob_sys_close((unsigned int)file));
	CHECK(strstr(read, " te=last\n"));
}

/* By default there are as many vCPUs as the host lets us use processors. */
static void as_many_vcpus_as_processors(void)
{
	cpu_set_t host, ours;
	int wanted;

	CPU_ZERO(&ours);
	CHECK(!sched_getaffinity(0, sizeof(host), &host));
	OK(ob_sys_sched_getaffinity(0, sizeof(ours), (unsigned long *)&ours));
	wanted = CPU_COUNT(&host);
	CHECK_EQUAL(CPU_COUNT(&ours), wanted < 64 ? wanted : 64);
}

/* Of those that Linux would begin with other values. */
static void settings(void)
{
	static const char *const paths[] = {
		"/proc/sys/vm/compaction_proactiveness", "/proc/sys/vm/watermark_boost_factor",
	};

	for (int i = 0; i < 2; i++) {
		char text[16] = "";
		unsigned int file = (unsigned int)OK(ob_sys_openat(AT_FDCWD, paths[i], O_RDONLY,
								   0));

		OK(ob_sys_read(file, text, sizeof(text) - 1));
		OK(ob_sys_close(file));
		CHECK(!strcmp(text, "0\n"));
	}
}

static int64_t mtime_of_new_file(const char *path)
{
	struct stat status;

	OK(ob_sys_close((unsigned int)OK(ob_sys_openat(AT_FDCWD, path, O_CREAT | O_EXCL, 0600))));
	OK(ob_sys_stat(path, (struct stat *)&status));
	return status.st_mtime;
}

/*
 * The clock is the host's at boot, and files have its time. A client may set it; then files follow
 * it.
 */
static void clocks(void)
{
	struct timespec now;

	OK(ob_sys_clock_gettime(CLOCK_REALTIME, (void *)&now));
	CHECK(llabs(now.tv_sec - time(NULL)) < 60);
	CHECK(llabs(mtime_of_new_file("/of-host") - time(NULL)) < 60);
	now.tv_sec -= 86400;
	OK(ob_sys_clock_settime(CLOCK_REALTIME, (void *)&now));
	CHECK(llabs(mtime_of_new_file("/of-client") - now.tv_sec) < 60);
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 2);
	about_itself();
	nothing_runs();
	bad_configurations();
	boot_with_all_words();
	CHECK(!*ob_boot_error());
	CHECK_EQUAL(ob_boot(NULL), -EALREADY);
	CHECK(strstr(ob_boot_error(), "runs already"));
	CHECK(ob_syscall(OB_SYS_getppid) >= 0);
	CHECK_EQUAL(ob_syscall(100000), -ENOSYS);
	CHECK_EQUAL(ob_syscall(-1), -ENOSYS);
	as_many_vcpus_as_processors();
	settings();
	bad_arguments(arguments[1]);
	mounted_disk_is_busy(arguments[1]);
	clocks();
	CHECK_EQUAL(ob_halt(), 0);
	nothing_runs();
	return 0;
}
