// SPDX-License-Identifier: GPL-2.0-only
/*
 * The FUSE server of devices/fs without a kernel: fuse_test DIRECTORY ROUNDS
 *
 * A kernel that breaks every rule: first chosen requests, then random ones, of which parts are
 * right. Nothing outside of the shared directory may change or be read, no byte outside of the room
 * for a reply may be written, and no file of the host may get privileges.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "share.h"

#define ROOM 70000
#define CANARY 0x5a

static struct ob_fs_share *share;
static char request[OB_FS_REQUEST_MOST + 4096], reply[ROOM + 64];
static size_t length;

/* ---- requests --------------------------------------------------------------------- */

static void begin(uint32_t opcode, uint64_t node)
{
	struct fuse_in_header header = { .opcode = opcode, .unique = 77, .nodeid = node };

	memcpy(request, &header, sizeof(header));
	length = sizeof(header);
}

static void add(const void *bytes, size_t size)
{
	memcpy(request + length, bytes, size);
	length += size;
}

static void add_name(const char *name)
{
	add(name, strlen(name) + 1);
}

static uint32_t send_as(uint32_t claimed, size_t room, size_t piece)
{
	struct iovec pieces[64];
	int count = 0, readable;
	uint32_t result;

	memcpy(request, &claimed, sizeof(claimed));
	for (size_t at = 0; at < length; at += piece)
		pieces[count++] = (struct iovec){ request + at,
						  length - at < piece ? length - at : piece };
	readable = count;
	for (size_t at = 0; at < room; at += 30000)
		pieces[count++] = (struct iovec){ reply + at,
						  room - at < 30000 ? room - at : 30000 };
	memset(reply, CANARY, sizeof(reply));
	result = ob_fs_serve(share, pieces, readable, count);
	CHECK(result <= room);
	for (size_t i = room; i < sizeof(reply); i++)
		CHECK(reply[i] == CANARY);
	return result;
}

/* Sends the request. Returns the error of the reply, as a positive number. */
static int send_it(void)
{
	const struct fuse_out_header *header = (const void *)reply;
	uint32_t got = send_as((uint32_t)length, ROOM, length / 8 + 1);

	CHECK(got >= sizeof(*header));
	CHECK_EQUAL(header->len, got);
	CHECK_EQUAL(header->unique, 77);
	CHECK(!header->error || got == sizeof(*header));
	return -header->error;
}

#define REPLY(type) ((const type *)(const void *)(reply + sizeof(struct fuse_out_header)))

static int look_up(uint64_t directory, const char *name)
{
	begin(FUSE_LOOKUP, directory);
	add_name(name);
	return send_it();
}

static uint64_t node_of(uint64_t directory, const char *name)
{
	CHECK_EQUAL(look_up(directory, name), 0);
	return REPLY(struct fuse_entry_out)->nodeid;
}

static int open_it(uint64_t node, uint32_t flags)
{
	struct fuse_open_in in = { .flags = flags };

	begin(FUSE_OPEN, node);
	add(&in, sizeof(in));
	return send_it();
}

static void start(void)
{
	struct fuse_init_in in = { .major = 7, .minor = 41, .flags = ~0u, .flags2 = ~0u };

	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	CHECK_EQUAL(send_it(), 0);
	CHECK_EQUAL(REPLY(struct fuse_init_out)->major, 7);
	CHECK(!(REPLY(struct fuse_init_out)->flags & (FUSE_WRITEBACK_CACHE | FUSE_POSIX_LOCKS)));
}

/* ---- chosen requests ---------------------------------------------------------------- */

static void test_names(void)
{
	static const char *const bad[] = { "..", ".", "", "a/b", "/etc/passwd", "../outside",
					   "d/../../outside" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fuse_mkdir_in in = { .mode = 0777 };
		struct fuse_rename_in to = { .newdir = FUSE_ROOT_ID };

		CHECK_EQUAL(look_up(FUSE_ROOT_ID, bad[i]), ENOENT);
		begin(FUSE_MKDIR, FUSE_ROOT_ID);
		add(&in, sizeof(in));
		add_name(bad[i]);
		CHECK(send_it());
		begin(FUSE_RENAME, FUSE_ROOT_ID);
		add(&to, sizeof(to));
		add_name("f");
		add_name(bad[i]);
		CHECK_EQUAL(send_it(), EPERM);
		begin(FUSE_UNLINK, FUSE_ROOT_ID);
		add_name(bad[i]);
		CHECK_EQUAL(send_it(), EPERM);
	}
	/* A name without an end. */
	begin(FUSE_LOOKUP, FUSE_ROOT_ID);
	add("f", 1);
	CHECK_EQUAL(send_it(), EINVAL);
}

/* Symbolic links are text. */
static void test_links(void)
{
	uint64_t link = node_of(FUSE_ROOT_ID, "link");
	struct fuse_setattr_in in = { .valid = FATTR_SIZE };

	CHECK_EQUAL(look_up(link, "secret"), ENOTDIR);
	CHECK_EQUAL(open_it(link, O_RDWR), ENXIO);
	begin(FUSE_OPENDIR, link);
	add(&(struct fuse_open_in){ .flags = 0 }, sizeof(struct fuse_open_in));
	CHECK_EQUAL(send_it(), ENOTDIR);
	begin(FUSE_SETATTR, link);
	add(&in, sizeof(in));
	CHECK_EQUAL(send_it(), EINVAL);
	CHECK_EQUAL(open_it(node_of(FUSE_ROOT_ID, "fifo"), O_RDONLY), ENXIO);
	begin(FUSE_READLINK, link);
	CHECK_EQUAL(send_it(), 0);
	CHECK(!memcmp(REPLY(char), "../outside", 10));
}

/* Numbers that no reply has given. */
static void test_numbers(void)
{
	static const uint64_t wrong[] = { 0, 999, ~0ull, 1ull << 32, 1ull << 63 };
	uint64_t file = node_of(FUSE_ROOT_ID, "f"), handle;

	CHECK_EQUAL(open_it(file, O_RDWR), 0);
	handle = REPLY(struct fuse_open_out)->fh;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct fuse_read_in in = { .fh = wrong[i] ^ handle ^ 1, .size = 100 };

		if (wrong[i] != FUSE_ROOT_ID)
			CHECK_EQUAL(look_up(wrong[i] ^ file ^ 12345, "f"), ESTALE);
		begin(FUSE_READ, file);
		add(&in, sizeof(in));
		CHECK_EQUAL(send_it(), EBADF);
		begin(FUSE_READDIR, file);
		in.fh = handle;
		add(&in, sizeof(in));
		CHECK_EQUAL(send_it(), EBADF);
	}
	/* A handle ends once. */
	for (int i = 0; i < 2; i++) {
		struct fuse_release_in in = { .fh = handle };

		begin(FUSE_RELEASE, file);
		add(&in, sizeof(in));
		CHECK_EQUAL(send_it(), i ? EBADF : 0);
	}
	/* So does a node, however often it is forgotten; the root does not. */
	for (int i = 0; i < 3; i++) {
		struct fuse_forget_in in = { .nlookup = ~0ull };

		begin(FUSE_FORGET, i == 2 ? FUSE_ROOT_ID : file);
		add(&in, sizeof(in));
		CHECK_EQUAL(send_as((uint32_t)length, 0, 4096), 0);
	}
	CHECK_EQUAL(look_up(FUSE_ROOT_ID, "f"), 0);
}

/* Sizes that are not what they should be. */
static void test_sizes(void)
{
	uint64_t file = node_of(FUSE_ROOT_ID, "f");
	struct fuse_write_in in = { .size = ~0u };
	struct fuse_setxattr_in attribute = { .size = 60000 };
	struct fuse_batch_forget_in forget = { .count = ~0u };

	CHECK_EQUAL(open_it(file, O_RDWR), 0);
	in.fh = REPLY(struct fuse_open_out)->fh;
	begin(FUSE_WRITE, file);
	add(&in, sizeof(in));
	add("abc", 3);
	CHECK_EQUAL(send_it(), 0);
	CHECK_EQUAL(REPLY(struct fuse_write_out)->size, 3);
	for (uint32_t claimed = 0; claimed < 100; claimed++)
		send_as(claimed, claimed, 7);
	for (size_t part = 0; part < 60; part++) {
		begin(FUSE_WRITE, file);
		add(&in, part < sizeof(in) ? part : sizeof(in));
		send_as((uint32_t)length, part % 20, 5);
	}
	begin(FUSE_SETXATTR, file);
	add(&attribute, FUSE_COMPAT_SETXATTR_IN_SIZE);
	add_name("user.x");
	add("v", 1);
	CHECK_EQUAL(send_it(), EINVAL);
	begin(FUSE_BATCH_FORGET, 0);
	add(&forget, sizeof(forget));
	CHECK_EQUAL(send_as((uint32_t)length, 0, 4096), 0);
	begin(9999, file);
	CHECK_EQUAL(send_it(), ENOSYS);
	/* No room for the reply to a read. */
	begin(FUSE_READ, file);
	add(&(struct fuse_read_in){ .fh = in.fh, .size = ~0u }, sizeof(struct fuse_read_in));
	CHECK_EQUAL(send_as((uint32_t)length, sizeof(struct fuse_out_header) + 2, 4096),
		    sizeof(struct fuse_out_header) + 2);
	CHECK(!memcmp(REPLY(char), "ab", 2));
	/* A request longer than any. */
	begin(FUSE_LOOKUP, FUSE_ROOT_ID);
	length = OB_FS_REQUEST_MOST + 1000;
	CHECK_EQUAL(send_it(), E2BIG);
}

/* Directories lose their descriptors, and are found again: under a new name of one above, too. */
static void test_many(void)
{
	struct fuse_mkdir_in in = { .mode = 0755 };
	struct fuse_rename_in to = { .newdir = FUSE_ROOT_ID };
	uint64_t directory = node_of(FUSE_ROOT_ID, "d"), found[600];
	char text[64];

	for (int i = 0; i < 600; i++) {
		snprintf(text, sizeof(text), "n%d", i);
		begin(FUSE_MKDIR, directory);
		add(&in, sizeof(in));
		add_name(text);
		CHECK_EQUAL(send_it(), 0);
		found[i] = REPLY(struct fuse_entry_out)->nodeid;
	}
	CHECK(share->nodes.open <= share->nodes.open_most + 1);
	begin(FUSE_RENAME, FUSE_ROOT_ID);
	add(&to, sizeof(to));
	add_name("d");
	add_name("moved");
	CHECK_EQUAL(send_it(), 0);
	for (int i = 0; i < 600; i++) {
		CHECK_EQUAL(look_up(found[i], "nothing"), ENOENT);
		snprintf(text, sizeof(text), "inside/moved/n%d", i);
		if (i % 3 == 0)
			CHECK(!rmdir(text));
	}
	/* Another process has deleted them. */
	for (int i = 0; i < 500; i += 3)
		CHECK_EQUAL(look_up(found[i], "nothing"), ESTALE);
	CHECK_EQUAL(node_of(FUSE_ROOT_ID, "moved"), directory);
}

/* ---- random requests ------------------------------------------------------------------ */

static uint64_t seed = 1;

static uint32_t pick(uint32_t most)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % most;
}

static uint64_t nodes[64], handles[64];

static uint64_t number(const uint64_t *known)
{
	static const uint64_t odd[] = { 0, 1, ~0ull, 1ull << 32 };

	return pick(16) ? known[pick(64)] : odd[pick(4)];
}

static const char *name(void)
{
	static const char *const names[] = {
		"f", "d", "link", "fifo", "a", "b", "c", "e", "..", ".", "", "../outside", "a/b",
		"user.a", "user.b", "user.containers.override_stat", "system.posix_acl_access",
		"security.capability",
	};
	static char longer[300];

	if (!pick(50))
		return memset(longer, 'x', sizeof(longer) - 1);
	return names[pick(sizeof(names) / sizeof(names[0]))];
}

/* Words that are small, or numbers of things, or wild. */
static void add_words(size_t size)
{
	while (size >= 4) {
		uint64_t word = pick(3) ? pick(pick(2) ? 8 : 4096) : seed;

		if (size >= 8 && pick(2)) {
			word = pick(2) ? number(handles) : pick(2) ? number(nodes) : word;
			add(&word, 8);
			size -= 8;
		} else {
			add(&word, 4);
			size -= 4;
		}
	}
}

static void remember(uint32_t opcode, uint32_t got)
{
	size_t head = sizeof(struct fuse_out_header);

	if (got >= head + sizeof(struct fuse_entry_out))
		nodes[pick(64)] = REPLY(struct fuse_entry_out)->nodeid;
	if (opcode == FUSE_OPEN || opcode == FUSE_OPENDIR)
		handles[pick(64)] = REPLY(struct fuse_open_out)->fh;
	if (opcode == FUSE_CREATE && got >= head + sizeof(struct fuse_entry_out) + 8)
		memcpy(&handles[pick(64)], reply + head + sizeof(struct fuse_entry_out), 8);
}

static bool names_a_node(uint32_t opcode)
{
	return opcode == FUSE_RENAME || opcode == FUSE_RENAME2 || opcode == FUSE_LINK;
}

static void send_random(void)
{
	static const uint8_t sizes[FUSE_SYNCFS + 1] = {
		[FUSE_FORGET] = 8, [FUSE_GETATTR] = 16, [FUSE_SETATTR] = 88, [FUSE_MKNOD] = 16,
		[FUSE_MKDIR] = 8, [FUSE_RENAME] = 8, [FUSE_LINK] = 8, [FUSE_OPEN] = 8,
		[FUSE_READ] = 40, [FUSE_WRITE] = 40, [FUSE_RELEASE] = 24, [FUSE_FSYNC] = 16,
		[FUSE_SETXATTR] = 8, [FUSE_GETXATTR] = 8, [FUSE_LISTXATTR] = 8, [FUSE_FLUSH] = 24,
		[FUSE_OPENDIR] = 8, [FUSE_READDIR] = 40, [FUSE_RELEASEDIR] = 24,
		[FUSE_FSYNCDIR] = 16, [FUSE_CREATE] = 16, [FUSE_BATCH_FORGET] = 8,
		[FUSE_FALLOCATE] = 32, [FUSE_READDIRPLUS] = 40, [FUSE_RENAME2] = 16,
		[FUSE_LSEEK] = 24, [FUSE_COPY_FILE_RANGE] = 56, [FUSE_INIT] = 64,
	};
	uint32_t opcode = pick(FUSE_SYNCFS), got;

	/* An INIT forgets all; to sync the host takes long. */
	if ((opcode == FUSE_INIT || opcode == FUSE_DESTROY || opcode == FUSE_FSYNC ||
	     opcode == FUSE_FSYNCDIR) && pick(200))
		opcode = FUSE_CREATE;
	begin(opcode, number(nodes));
	add_words(sizes[opcode]);
	/* The first word is most often a number that means something. */
	if (sizes[opcode] && pick(8))
		memcpy(request + sizeof(struct fuse_in_header),
		       names_a_node(opcode) ? &nodes[pick(64)] : &handles[pick(64)], 8);
	for (uint32_t i = pick(4); i > 0; i--)
		add_name(name());
	add_words(pick(40) * 4);
	if (!pick(30))
		length = pick((uint32_t)length + 1);
	got = send_as(pick(50) ? (uint32_t)length : pick(1000), pick(20) ? ROOM : pick(300),
		      length / 16 + 1);
	if (got > sizeof(struct fuse_out_header))
		remember(opcode, got);
}

static int check_file(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)type;
	(void)place;
	if (status->st_uid != geteuid() || S_ISCHR(status->st_mode) || S_ISBLK(status->st_mode) ||
	    (!S_ISDIR(status->st_mode) && status->st_mode & (S_ISUID | S_ISGID))) {
		fprintf(stderr, "%s: mode %o of %u\n", path, status->st_mode, status->st_uid);
		return 1;
	}
	return 0;
}

/* ---- the bed --------------------------------------------------------------------------- */

static void make(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	CHECK(fd >= 0);
	CHECK_EQUAL(write(fd, text, strlen(text)), (long)strlen(text));
	close(fd);
}

static void check_outside(const struct stat *before)
{
	struct stat now;
	char text[16] = "";
	int fd = open("outside/secret", O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, sizeof(text)) == 6 && !strcmp(text, "secret"));
	close(fd);
	CHECK(!stat("outside", &now));
	CHECK(now.st_mtim.tv_nsec == before->st_mtim.tv_nsec && now.st_mode == before->st_mode &&
	      now.st_ctim.tv_nsec == before->st_ctim.tv_nsec);
}

static void make_tree(void)
{
	CHECK(!mkdir("outside", 0700) && !mkdir("inside", 0700) && !mkdir("inside/d", 0700));
	make("outside/secret", "secret");
	make("inside/f", "contents");
	CHECK(!symlink("../outside", "inside/link") && !mkfifo("inside/fifo", 0600));
}

static void open_share(bool is_read_only)
{
	struct ob_fs_settings settings = {
		.path = "inside", .is_read_only = is_read_only, .keeps_owners = true,
	};
	char error[256];

	CHECK_EQUAL(ob_fs_share_open(&settings, &share, error, sizeof(error)), 0);
	share->nodes.open_most = 16;
	for (int i = 0; i < 64; i++)
		nodes[i] = FUSE_ROOT_ID;
}

static long descriptors(void)
{
	long count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Nothing inside changes either: the time of the root is that of its last change. */
static void check_read_only(long rounds)
{
	struct stat first, now;

	CHECK(!chmod("inside", 0700) && !stat("inside", &first));
	open_share(true);
	while (rounds-- > 0)
		send_random();
	ob_fs_share_close(share);
	CHECK(!stat("inside", &now));
	CHECK(now.st_ctim.tv_nsec == first.st_ctim.tv_nsec && now.st_mode == first.st_mode);
}

int main(int argc, char **argv)
{
	struct rlimit small = { 1 << 20, 1 << 20 }, few = { 300, 300 };
	struct stat outside;
	long before;

	CHECK(argc == 3 && !chdir(argv[1]));
	signal(SIGXFSZ, SIG_IGN);
	CHECK(!setrlimit(RLIMIT_FSIZE, &small) && !setrlimit(RLIMIT_NOFILE, &few));
	make_tree();
	CHECK(!stat("outside", &outside));
	before = descriptors();
	open_share(false);
	start();
	test_names();
	test_links();
	test_numbers();
	test_sizes();
	test_many();
	for (long i = atol(argv[2]); i > 0; i--)
		send_random();
	check_outside(&outside);
	CHECK_EQUAL(nftw("inside", check_file, 20, FTW_PHYS), 0);
	ob_fs_share_close(share);
	CHECK_EQUAL(descriptors(), before);
	check_read_only(atol(argv[2]) / 4);
	return 0;
}
