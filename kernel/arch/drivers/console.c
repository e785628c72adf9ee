// SPDX-License-Identifier: GPL-2.0-only
/*
 * The console passes whole lines of the kernel's log to the host, with their level. Linux formats
 * the log as for syslog ("<level>[time] text"), and the console takes the level from there.
 */
#include <linux/console.h>
#include <linux/init.h>
#include <linux/string.h>
#include <asm/host.h>

#define OB_LEVEL_UNKNOWN 4		/* of a line that continues another one: a warning */

/* N of "<N>" is facility * 8 + level. Returns the length of this prefix. */
static unsigned int ob_parse_level(const char *text, unsigned int length, int *level)
{
	unsigned int i, value = 0;

	*level = OB_LEVEL_UNKNOWN;
	if (length < 3 || text[0] != '<')
		return 0;
	for (i = 1; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		value = value * 10 + text[i] - '0';
	if (i == length || text[i] != '>')
		return 0;
	*level = value & 7;
	return i + 1;
}

/*
 * Warnings of each boot that concern nobody. They stay in the kernel's own log.
 *
 * Dodge console_on_rootfs: init has no standard descriptors, and runs no program that would need
 * them.
 *
 * Dodge mark_readonly: the host protects the kernel's text and constants.
 */
static const struct ob_needless {
	const char *function;
	const char *text;
} ob_needless[] = {
	{ "console_on_rootfs", "Warning: unable to open an initial console." },
	{ "mark_readonly", "This architecture does not have kernel memory protection." },
};

static bool ob_is_needless(const char *text, unsigned int length)
{
	for (int i = 0; i < ARRAY_SIZE(ob_needless); i++)
		if (strnstr(text, ob_needless[i].text, length))
			return true;
	return false;
}

static void ob_console_write(struct console *console, const char *text, unsigned int count)
{
	while (count) {
		const char *end = memchr(text, '\n', count);
		unsigned int length = end ? end - text : count;
		unsigned int used = length + !!end;
		unsigned int prefix;
		int level;

		prefix = ob_parse_level(text, length, &level);
		if (!ob_is_needless(text, length))
			ob_host_console_write(ob_host, level, text + prefix, length - prefix);
		text += used;
		count -= used;
	}
}

static struct console ob_console = {
	.name = "outboard",
	.write = ob_console_write,
	.flags = CON_PRINTBUFFER | CON_ANYTIME | CON_ENABLED,
	.index = 0,
};

static int __init ob_console_setup(void)
{
	register_console(&ob_console);
	return 0;
}
console_initcall(ob_console_setup);
