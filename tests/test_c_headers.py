# SPDX-License-Identifier: GPL-2.0-only
"""The check that public headers of C follow the rules: tests/c_headers.py, on tiny headers."""

import c_headers
import pytest

from support import gates

GOOD = """\
/* A comment, with struct ob_bad *bad and kind. */
#ifndef OUTBOARD_DISK_H
#define OUTBOARD_DISK_H
#ifdef __cplusplus
extern "C" {
#endif
struct ob_instance;
struct ob_disk;
#define OB_DISK_READ_ONLY 1u
enum ob_disk_type {
	OB_DISK_PLAIN = 0
};
struct ob_disk_time {
	size_t size;
	int64_t seconds;
};
struct ob_disk_config {
	size_t size;
	uint32_t flags;
	const char *path;
	int (*read)(void *context, uint64_t offset);
	void *read_context;
};
struct ob_disk_info {
	size_t size;
	char *text;
};
struct ob_disk_operations {
	size_t size;
	int (*read)(void *context);
	int (*write)(void *context);
};
typedef int ob_disk_info_function(void *context, const struct ob_disk_info *info);
int ob_disk_info_free(struct ob_disk_info *info);
int ob_disk_new(const char *const *paths, struct ob_disk **disk);
void ob_disk_free(struct ob_disk *disk);
int ob_disk_list(struct ob_disk *disk, ob_disk_info_function *function, void *context);
int ob_disk_text(const struct ob_disk *disk, char **text,
		 size_t *length);
int ob_boot(const struct ob_disk_config *config);
int ob_boot_on(struct ob_instance *instance, const struct ob_disk_config *config);
int ob_instance_new(struct ob_instance **instance);
int ob_instance_free(struct ob_instance *instance);
const char *ob_version(void);
#ifdef __cplusplus
}
#endif
#endif
"""
SOCKETS = """\
int ob_local_close(int fd);
#define close ob_local_close
"""


def outcome(root, capsys, header=GOOD, sockets=SOCKETS):
    gates.write_files(str(root), {"lib/include/outboard/disk.h": header,
                                  "lib/include/outboard/sockets.h": sockets,
                                  "crates/outboard-c/include/outboard/volume.h": "",
                                  "crates/outboard-client/include/outboard/client.h": ""})
    return gates.outcome(capsys, c_headers.main, str(root))


def test_good(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys)
    assert passes and "11 functions of 4 headers keep the rules" in printed, printed


@pytest.mark.parametrize("old, new, found", [
    ("const char *ob_version(", "const char *version(", "version does not begin with ob_"),
    ("#define OB_DISK_READ_ONLY", "#define DISK_READ_ONLY", "DISK_READ_ONLY does not begin with"),
    ("OB_DISK_PLAIN =", "DISK_PLAIN =", "DISK_PLAIN does not begin with OB_"),
    ("enum ob_disk_type", "enum ob_disk_kind", "the word is type, not kind"),
    ("const char *path;", "const char *kind;", "the word is type, not kind"),
    ("\tsize_t size;\n\tint64_t seconds;", "\tint64_t seconds;", "is not size_t size"),
    ("int64_t seconds", "unsigned int seconds", "has no fixed width"),
    ("uint32_t flags", "uint64_t flags", "is not uint32_t flags"),
    ("int ob_disk_info_free(struct ob_disk_info *info);\n", "", "there is no ob_disk_info_free()"),
    ("ob_disk_text(const", "ob_image_text(const", "with which the name does not begin"),
    ("ob_disk_free(", "ob_disk_end(", "struct ob_disk has the functions new"),
    ("ob_disk_new(", "ob_disk_open(", "struct ob_disk has the functions free, open"),
    ("int ob_boot(const struct ob_disk_config *config);", "int ob_boot(int config);",
     "the arguments and the result of ob_boot()"),
    ("int ob_boot(", "long ob_boot(", "the arguments and the result of ob_boot()"),
    ("ob_boot_on(struct ob_instance *instance, ", "ob_boot_on(",
     "ob_boot_on() does not begin with the instance"),
    ("typedef int ob_disk_info_function", "typedef void ob_disk_info_function", "is not int"),
    ("ob_disk_info_function", "ob_disk_function", "is not named after a struct"),
    ("(*write)(void *context)", "(*write)(int offset)", "write does not get its context first"),
    ("\tvoid *read_context;\n", "", "no context follows the function int (*read)"),
    ("function, void *context);", "function, int other);", "no context follows the function"),
    ("char **text,\n\t\t size_t *length", "char **text, size_t length", "comes after a result"),
])
def test_bad(tmp_path, capsys, old, new, found):
    assert old in GOOD
    passes, printed = outcome(tmp_path, capsys, GOOD.replace(old, new))
    assert not passes and found in printed and "docs/c-api.md" in printed, printed


def test_sockets(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys, sockets=SOCKETS + "int ob_local_dup(int fd);\n")
    assert not passes and "ob_local_dup() has no macro" in printed


def test_empty(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys, "", "")
    assert not passes and "no function in the headers" in printed
