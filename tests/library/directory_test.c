// SPDX-License-Identifier: GPL-2.0-only
/*
 * Directories of the host (ob_dir_add): directory_test CASE DIRECTORY. The directory is empty, and
 * on a file system with attributes of users. Each case boots, mounts the directory, and compares
 * what it does inside with what the host has.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "client.h"

#define OWNERS "user.containers.override_stat"
#define BIG (5ul << 20)

static const char *top;

static const char *host_path(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static int add(const char *path, const char *tag, uint32_t flags, uint32_t cache)
{
	struct ob_dir_config config = {
		.size = sizeof(config), .path = path, .tag = tag, .flags = flags, .cache = cache,
	};

	return ob_dir_add(&config);
}

static int mount_flags(uint32_t flags, uint32_t cache)
{
	int dir;

	client_boot(2);
	dir = add(top, "share", flags, cache);
	if (dir < 0) {
		fprintf(stderr, "ob_dir_add: %s\n", ob_dir_error());
		_Exit(1);
	}
	OK(ob_sys_mkdir("/in", 0755));
	OK(ob_sys_mount("share", "/in", "virtiofs", 0, NULL));
	return dir;
}

static int mount_it(void)
{
	return mount_flags(OB_DIR_KEEP_OWNERS, OB_DIR_CACHE_AUTO);
}

static void write_inside(const char *path, const void *bytes, size_t size)
{
	int fd = (int)OK(ob_sys_open(path, O_CREAT | O_RDWR | O_TRUNC, 0644));

	CHECK_EQUAL(OK(ob_sys_write(fd, bytes, size)), (long)size);
	OK(ob_sys_close(fd));
}

static void write_outside(const char *name, const void *bytes, size_t size)
{
	int fd = (int)OK(open(host_path(name), O_CREAT | O_RDWR | O_TRUNC, 0644));

	CHECK_EQUAL(OK(write(fd, bytes, size)), (long)size);
	OK(close(fd));
}

static void fail(long result, int error)
{
	CHECK_EQUAL(result, -1);
	CHECK_EQUAL(errno, error);
}

static mode_t mode_inside(const char *path)
{
	struct stat status;

	OK(ob_sys_newfstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW));
	return status.st_mode;
}

/* ---- cases ----------------------------------------------------------------------- */

static unsigned char *pattern(size_t size)
{
	unsigned char *bytes = malloc(size);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 31 + i / 4096);
	return bytes;
}

static void test_contents(void)
{
	unsigned char *bytes = pattern(BIG), *back = malloc(BIG);
	int fd;

	mount_it();
	write_inside("/in/big", bytes, BIG);
	fd = (int)OK(open(host_path("big"), O_RDONLY));
	CHECK_EQUAL(OK(pread(fd, back, BIG, 0)), (long)BIG);
	CHECK(!memcmp(bytes, back, BIG));
	close(fd);
	bytes[77777] ^= 1;
	write_outside("other", bytes, BIG);
	memset(back, 0, BIG);
	fd = (int)OK(ob_sys_open("/in/other", O_RDWR | O_APPEND, 0));
	for (size_t done = 0; done < BIG; )
		done += (size_t)OK(ob_sys_read(fd, back + done, BIG - done));
	CHECK(!memcmp(bytes, back, BIG));
	/* Another process of the host appends; what is appended inside comes after. */
	CHECK_EQUAL(truncate(host_path("other"), BIG + 10), 0);
	CHECK_EQUAL(OK(ob_sys_write(fd, "end", 3)), 3);
	OK(ob_sys_close(fd));
	fd = (int)OK(open(host_path("other"), O_RDONLY));
	CHECK_EQUAL(OK(pread(fd, back, 4, BIG + 10)), 3);
	CHECK(!memcmp(back, "end", 3));
	free(bytes);
	free(back);
}

static void test_mapping(void)
{
	int fd;
	char *bytes, back[4];

	mount_it();
	write_inside("/in/mapped", pattern(8192), 8192);
	fd = (int)OK(ob_sys_open("/in/mapped", O_RDWR | O_APPEND, 0));
	bytes = ob_sys_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(bytes != MAP_FAILED);
	CHECK_EQUAL((unsigned char)bytes[5000], (unsigned char)(5000 * 31 + 1));
	memcpy(bytes + 4096, "new", 3);
	OK(ob_sys_msync(bytes, 8192, MS_SYNC));
	fd = (int)OK(open(host_path("mapped"), O_RDONLY));
	CHECK_EQUAL(lseek(fd, 0, SEEK_END), 8192);
	CHECK_EQUAL(OK(pread(fd, back, 3, 4096)), 3);
	CHECK(!memcmp(back, "new", 3));
}

static void test_names(void)
{
	char text[64];
	struct stat inside, outside;
	int fd;

	mount_it();
	OK(ob_sys_mkdir("/in/d", 0755));
	OK(ob_sys_mkdir("/in/d/e", 0700));
	write_inside("/in/d/f", "text", 4);
	OK(ob_sys_link("/in/d/f", "/in/g"));
	OK(ob_sys_symlink("../../outside", "/in/s"));
	CHECK_EQUAL(OK(readlink(host_path("s"), text, sizeof(text))), 13);
	CHECK_EQUAL(OK(ob_sys_readlink("/in/s", text, sizeof(text))), 13);
	OK(stat(host_path("g"), &outside));
	OK(ob_sys_newfstatat(AT_FDCWD, "/in/d/f", &inside, 0));
	CHECK(inside.st_ino == outside.st_ino && inside.st_nlink == 2 && outside.st_nlink == 2);
	/* An open file stays, as on the host. */
	fd = (int)OK(ob_sys_open("/in/d/f", O_RDWR, 0));
	OK(ob_sys_unlink("/in/d/f"));
	OK(ob_sys_unlink("/in/g"));
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 64, 0)), 4);
	OK(ob_sys_ftruncate(fd, 2));
	OK(ob_sys_newfstatat(fd, "", &inside, AT_EMPTY_PATH));
	CHECK(inside.st_size == 2 && !inside.st_nlink);
	fail(ob_sys_rmdir("/in/d"), ENOTEMPTY);
	fail(ob_sys_unlink("/in/d"), EISDIR);
	write_inside("/in/a", "a", 1);
	write_inside("/in/b", "bb", 2);
	fail(ob_sys_renameat2(AT_FDCWD, "/in/a", AT_FDCWD, "/in/b", RENAME_NOREPLACE), EEXIST);
	OK(ob_sys_renameat2(AT_FDCWD, "/in/a", AT_FDCWD, "/in/b", RENAME_EXCHANGE));
	OK(stat(host_path("a"), &outside));
	CHECK_EQUAL(outside.st_size, 2);
	OK(ob_sys_rename("/in/a", "/in/d/e/a"));
	OK(ob_sys_rename("/in/d", "/in/D"));
	OK(ob_sys_newfstatat(AT_FDCWD, "/in/D/e/a", &inside, 0));
	OK(stat(host_path("D/e/a"), &outside));
	CHECK_EQUAL(inside.st_ino, outside.st_ino);
	OK(ob_sys_mknod("/in/fifo", S_IFIFO | 0600, 0));
	CHECK(S_ISFIFO(mode_inside("/in/fifo")));
	fail(ob_sys_mknod("/in/null", S_IFCHR | 0666, 0x103), EPERM);
}

static int count_inside(const char *path)
{
	static char bytes[32768];
	int fd = (int)OK(ob_sys_open(path, O_RDONLY | O_DIRECTORY, 0)), count = 0;
	long size;

	while ((size = OK(ob_sys_getdents64(fd, (void *)bytes, sizeof(bytes)))) > 0)
		for (long at = 0; at < size; count++)
			at += ((struct dirent64 *)(bytes + at))->d_reclen;
	OK(ob_sys_close(fd));
	return count;
}

/* Far more files than the process may open; each is used again after its descriptor was closed. */
static void test_many(void)
{
	struct rlimit limit = { 256, 256 };
	struct stat inside;
	char path[64];

	OK(setrlimit(RLIMIT_NOFILE, &limit));
	mount_it();
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/in/d%d", i);
		OK(ob_sys_mkdir(path, 0755));
		for (int j = 0; j < 50; j++) {
			snprintf(path, sizeof(path), "/in/d%d/file-%d", i, j);
			write_inside(path, path, strlen(path));
		}
	}
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/in/d%d", i);
		CHECK_EQUAL(count_inside(path), 52);
		snprintf(path, sizeof(path), "/in/d%d/file-7", i);
		OK(ob_sys_chmod(path, 0600));
		OK(ob_sys_truncate(path, i));
	}
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/in/d%d/file-7", i);
		OK(ob_sys_newfstatat(AT_FDCWD, path, &inside, 0));
		CHECK_EQUAL(inside.st_size, i);
		snprintf(path, sizeof(path), "d%d/file-7", i);
		OK(stat(host_path(path), &inside));
		CHECK_EQUAL(inside.st_size, i);
	}
}

static void check_owner(const char *path, uid_t uid, gid_t gid, mode_t mode)
{
	struct stat status;

	OK(ob_sys_newfstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW));
	CHECK_EQUAL(status.st_uid, uid);
	CHECK_EQUAL(status.st_gid, gid);
	CHECK_EQUAL(status.st_mode & 07777, mode);
}

static void check_kept(const char *name, const char *text, mode_t mode)
{
	char found[64] = "";
	struct stat status;

	(void)!getxattr(host_path(name), OWNERS, found, sizeof(found) - 1);
	if (strcmp(found, text)) {
		fprintf(stderr, "%s: \"%s\", not \"%s\"\n", name, found, text);
		_Exit(1);
	}
	OK(lstat(host_path(name), &status));
	CHECK_EQUAL(status.st_uid, geteuid());
	CHECK_EQUAL(status.st_mode & 07777, mode);
}

static void test_owners(void)
{
	char names[256];

	mount_it();
	write_inside("/in/plain", "x", 1);
	check_owner("/in/plain", 0, 0, 0644);
	check_kept("plain", "", 0644);
	OK(ob_sys_chown("/in/plain", 1000, 1001));
	check_owner("/in/plain", 1000, 1001, 0644);
	check_kept("plain", "1000:1001:0644:file", 0644);
	OK(ob_sys_chmod("/in/plain", 06711));
	check_owner("/in/plain", 1000, 1001, 06711);
	check_kept("plain", "1000:1001:6711:file", 0711);
	/* A new owner has no privileges of the old one. */
	OK(ob_sys_chown("/in/plain", 7, 7));
	check_owner("/in/plain", 7, 7, 0711);
	OK(ob_sys_chown("/in/plain", 0, 0));
	check_kept("plain", "", 0711);
	/* The host's file can be used by its owner all the time. */
	OK(ob_sys_chmod("/in/plain", 0));
	check_owner("/in/plain", 0, 0, 0);
	check_kept("plain", "0:0:0000:file", 0600);
	OK(ob_sys_close((int)OK(ob_sys_open("/in/plain", O_RDWR, 0))));
	OK(ob_sys_mkdir("/in/d", 0555));
	check_kept("d", "0:0:0555:dir", 0755);
	/* Files of a directory with set-group-ID have its group. */
	OK(ob_sys_chown("/in/d", 0, 50));
	OK(ob_sys_chmod("/in/d", 02775));
	write_inside("/in/d/f", "x", 1);
	check_owner("/in/d/f", 0, 50, 0644);
	OK(ob_sys_mkdir("/in/d/e", 0755));
	check_owner("/in/d/e", 0, 50, 02755);
	check_kept("d/e", "0:50:2755:dir", 0755);
	/* The attribute is not seen. */
	fail(ob_sys_getxattr("/in/d", OWNERS, names, sizeof(names)), ENODATA);
	fail(ob_sys_setxattr("/in/d", OWNERS, "0:0:0", 5, 0), EPERM);
	fail(ob_sys_removexattr("/in/d", OWNERS), EPERM);
	CHECK_EQUAL(OK(ob_sys_listxattr("/in/d", names, sizeof(names))), 0);
	/* Symbolic links and FIFOs have no attributes. */
	OK(ob_sys_symlink("nowhere", "/in/s"));
	fail(ob_sys_lchown("/in/s", 5, 5), EPERM);
	OK(ob_sys_lchown("/in/s", 0, 0));
	/* A write drops set-user-ID, which is in the attribute only. */
	OK(ob_sys_chmod("/in/plain", 04755));
	check_kept("plain", "0:0:4755:file", 0755);
	OK(ob_sys_setresuid(0, 1000, -1u));
}

static void test_attributes(void)
{
	char value[256], names[256];

	mount_it();
	write_inside("/in/f", "x", 1);
	OK(ob_sys_setxattr("/in/f", "user.key", "value", 5, XATTR_CREATE));
	fail(ob_sys_setxattr("/in/f", "user.key", "value", 5, XATTR_CREATE), EEXIST);
	CHECK_EQUAL(OK(getxattr(host_path("f"), "user.key", value, sizeof(value))), 5);
	CHECK_EQUAL(OK(ob_sys_getxattr("/in/f", "user.key", value, sizeof(value))), 5);
	CHECK_EQUAL(OK(ob_sys_getxattr("/in/f", "user.key", NULL, 0)), 5);
	fail(ob_sys_getxattr("/in/f", "user.key", value, 3), ERANGE);
	CHECK_EQUAL(OK(ob_sys_listxattr("/in/f", names, sizeof(names))), 9);
	OK(ob_sys_removexattr("/in/f", "user.key"));
	fail(ob_sys_getxattr("/in/f", "user.key", value, sizeof(value)), ENODATA);
	fail(ob_sys_setxattr("/in/f", "trusted.key", "value", 5, 0), EOPNOTSUPP);
}

/* Of a process that is root, whose files keep the owners of the host. */
static void test_attributes_of_root(void)
{
	static const char *const hidden[] = { "security.selinux", "security.ima" };
	char value[256];

	mount_flags(0, OB_DIR_CACHE_AUTO);
	write_inside("/in/f", "x", 1);
	if (geteuid())
		return;
	for (int i = 0; i < 2; i++) {
		fail(ob_sys_getxattr("/in/f", hidden[i], value, sizeof(value)), EOPNOTSUPP);
		fail(ob_sys_setxattr("/in/f", hidden[i], "label", 5, 0), EOPNOTSUPP);
		fail(ob_sys_removexattr("/in/f", hidden[i]), EOPNOTSUPP);
	}
	fail(ob_sys_getxattr("/in/f", "security.capability", value, sizeof(value)), ENODATA);
	OK(ob_sys_setxattr("/in/f", "trusted.key", "value", 5, 0));
	CHECK_EQUAL(OK(getxattr(host_path("f"), "trusted.key", value, sizeof(value))), 5);
}

static void test_read_only(void)
{
	char text[8];
	int fd;

	write_outside("f", "text", 4);
	mount_flags(OB_DIR_READ_ONLY | OB_DIR_KEEP_OWNERS, OB_DIR_CACHE_AUTO);
	fd = (int)OK(ob_sys_open("/in/f", O_RDONLY, 0));
	CHECK_EQUAL(OK(ob_sys_read(fd, text, sizeof(text))), 4);
	OK(ob_sys_close(fd));
	fail(ob_sys_open("/in/f", O_RDWR, 0), EROFS);
	fail(ob_sys_open("/in/f", O_RDONLY | O_TRUNC, 0), EROFS);
	fail(ob_sys_open("/in/g", O_CREAT | O_WRONLY, 0644), EROFS);
	fail(ob_sys_mkdir("/in/d", 0755), EROFS);
	fail(ob_sys_unlink("/in/f"), EROFS);
	fail(ob_sys_chmod("/in/f", 0600), EROFS);
	fail(ob_sys_truncate("/in/f", 0), EROFS);
	fail(ob_sys_rename("/in/f", "/in/g"), EROFS);
	fail(ob_sys_setxattr("/in/f", "user.key", "value", 5, 0), EROFS);
	OK(ob_sys_umount2("/in", 0));
}

/* One file of a directory; the others are not there. */
static void test_one_file(void)
{
	int dir;

	write_outside("one", "text", 4);
	write_outside("two", "text", 4);
	client_boot(1);
	dir = add(host_path("one"), "one", OB_DIR_KEEP_OWNERS, 0);
	CHECK(dir >= 0);
	OK(ob_sys_mkdir("/in", 0755));
	OK(ob_sys_mount("one", "/in", "virtiofs", 0, NULL));
	CHECK_EQUAL(count_inside("/in"), 3);
	CHECK(S_ISREG(mode_inside("/in/one")));
	fail(ob_sys_open("/in/two", O_RDONLY, 0), ENOENT);
	fail(ob_sys_open("/in/three", O_CREAT | O_RDWR, 0644), EPERM);
	fail(ob_sys_unlink("/in/one"), EPERM);
	fail(ob_sys_chmod("/in", 0777), EPERM);
	fail(ob_sys_setxattr("/in", "user.key", "value", 5, 0), EPERM);
	write_inside("/in/one", "longer", 6);
	CHECK_EQUAL(open(host_path("three"), O_RDONLY), -1);
	/* It can be mounted where the file of an image is. */
	OK(ob_sys_close((int)OK(ob_sys_open("/place", O_CREAT | O_RDWR, 0644))));
	OK(ob_sys_mount("/in/one", "/place", NULL, MS_BIND, NULL));
	CHECK(S_ISREG(mode_inside("/place")));
}

static void test_changes_outside(void)
{
	struct stat status;
	char text[8];
	int fd;

	write_outside("f", "old", 3);
	mkdir(host_path("d"), 0755);
	mount_flags(OB_DIR_KEEP_OWNERS, OB_DIR_CACHE_NONE);
	CHECK(S_ISDIR(mode_inside("/in/d")));
	fd = (int)OK(ob_sys_open("/in/f", O_RDWR, 0));
	write_outside("f", "newer", 5);
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 8, 0)), 5);
	/* A link in the place of a directory leads nowhere outside. */
	OK(rmdir(host_path("d")));
	OK(symlink("/etc", host_path("d")));
	fail(ob_sys_newfstatat(AT_FDCWD, "/in/d/passwd", &status, 0), ENOENT);
	OK(unlink(host_path("f")));
	fail(ob_sys_open("/in/f", O_RDONLY, 0), ENOENT);
	CHECK_EQUAL(OK(ob_sys_write(fd, "x", 1)), 1);
	OK(unlink(host_path("d")));
	/* The directory itself goes. */
	OK(rmdir(top));
	fail(ob_sys_open("/in/f", O_CREAT | O_RDWR, 0644), ENOENT);
	CHECK(S_ISDIR(mode_inside("/in")));
	OK(mkdir(top, 0700));
}

static void test_limits(void)
{
	struct rlimit limit = { 10000, RLIM_INFINITY };
	static char bytes[20000];
	int fd;

	mount_it();
	OK(setrlimit(RLIMIT_FSIZE, &limit));
	fd = (int)OK(ob_sys_open("/in/f", O_CREAT | O_RDWR, 0644));
	CHECK_EQUAL(OK(ob_sys_write(fd, bytes, 10000)), 10000);
	fail(ob_sys_write(fd, bytes, 10000), EFBIG);
	OK(ob_sys_close(fd));
	fail(ob_sys_truncate("/in/f", 20000), EFBIG);
}

static void test_files(void)
{
	static char bytes[100000];
	struct statfs status;
	int from, to;
	long place = 0;

	mount_it();
	from = (int)OK(ob_sys_open("/in/from", O_CREAT | O_RDWR, 0644));
	to = (int)OK(ob_sys_open("/in/to", O_CREAT | O_RDWR, 0644));
	OK(ob_sys_pwrite64(from, bytes, sizeof(bytes), 1 << 20));
	CHECK_EQUAL(OK(ob_sys_lseek(from, 0, SEEK_DATA)), 1 << 20);
	CHECK_EQUAL(OK(ob_sys_lseek(from, 0, SEEK_HOLE)), 0);
	OK(ob_sys_fallocate(to, 0, 0, 65536));
	OK(ob_sys_fallocate(to, 3, 0, 4096));
	place = 1 << 20;
	CHECK_EQUAL(OK(ob_sys_copy_file_range(from, &place, to, NULL, 5000, 0)), 5000);
	OK(ob_sys_fsync(to));
	OK(ob_sys_syncfs(to));
	OK(ob_sys_flock(to, 2 | 4));
	fail(ob_sys_ioctl(to, 0x5401, 0), ENOTTY);
	OK(ob_sys_statfs("/in", &status));
	CHECK(status.f_blocks > 0 && status.f_namelen == 255);
	memset(bytes, 'x', 300);
	memcpy(bytes, "/in/", 4);
	fail(ob_sys_open(bytes, O_RDONLY, 0), ENAMETOOLONG);
}

static void test_removal(void)
{
	int dir = mount_it(), other;

	CHECK_EQUAL(ob_dir_remove(dir), -EBUSY);
	CHECK(strstr(ob_dir_error(), "mounted"));
	CHECK_EQUAL(add(top, "share", 0, 0), -EEXIST);
	CHECK(strstr(ob_dir_error(), "of the tag share"));
	CHECK_EQUAL(add("/nowhere/at/all", "other", 0, 0), -ENOENT);
	CHECK(!strcmp(ob_dir_error(), "/nowhere/at/all: No such file or directory"));
	CHECK_EQUAL(add("/dev/null", "other", 0, 0), -ENOTDIR);
	CHECK_EQUAL(add(top, "", 0, 0), -EINVAL);
	CHECK_EQUAL(add(top, "other", 4, 0), -EINVAL);
	other = add(top, "other", 0, 0);
	CHECK(other >= 0);
	CHECK_EQUAL(ob_dir_remove(other), 0);
	CHECK_EQUAL(ob_dir_remove(other), -ENOENT);
	OK(ob_sys_umount2("/in", 0));
	OK(ob_sys_mount("share", "/in", "virtiofs", 0, NULL));
	OK(ob_sys_umount2("/in", 0));
	CHECK_EQUAL(ob_dir_remove(dir), 0);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(add(top, "other", 0, 0), -ENODEV);
}

static int is_over;

static void *mount_again_and_again(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		if (!ob_sys_mount("share", "/in", "virtiofs", 0, NULL))
			OK(ob_sys_umount2("/in", 0));
	return unused;
}

/* Another thread mounts the directory at any moment of its removal. Both end. */
static void test_removal_races(void)
{
	pthread_t thread;
	int dir, result;

	client_boot(2);
	OK(ob_sys_mkdir("/in", 0755));
	CHECK(!pthread_create(&thread, NULL, mount_again_and_again, NULL));
	for (int i = 0; i < 100; i++) {
		dir = add(top, "share", 0, 0);
		CHECK(dir >= 0);
		while ((result = ob_dir_remove(dir)) == -EBUSY)
			sched_yield();
		CHECK_EQUAL(result, 0);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
}

/* A child has no descriptors of the directory; the parent goes on. */
static void test_fork(void)
{
	struct client_belongings before = client_belongings();
	int status;
	pid_t child;

	mount_it();
	write_inside("/in/f", "x", 1);
	child = fork();
	if (!child) {
		struct client_belongings now = client_belongings();

		_Exit(now.descriptors > before.descriptors);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	write_inside("/in/g", "x", 1);
	CHECK_EQUAL(ob_halt(), 0);
	client_check_files_and_threads(before);
}

static const struct {
	const char *name;
	void (*function)(void);
} cases[] = {
	{ "contents", test_contents }, { "mapping", test_mapping }, { "names", test_names },
	{ "many", test_many }, { "owners", test_owners }, { "attributes", test_attributes },
	{ "attributes-of-root", test_attributes_of_root },
	{ "read-only", test_read_only }, { "one-file", test_one_file },
	{ "changes-outside", test_changes_outside }, { "limits", test_limits },
	{ "files", test_files }, { "removal", test_removal },
	{ "removal-races", test_removal_races }, { "fork", test_fork },
};

int main(int argc, char **argv)
{
	CHECK_EQUAL(argc, 3);
	top = argv[2];
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].function();
		CHECK(!ob_halt() || !strcmp(argv[1], "removal") || !strcmp(argv[1], "fork"));
		puts("done");
		return 0;
	}
	return 2;
}
