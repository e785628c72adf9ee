/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * liboutboard-server: a program that has booted a kernel serves it to other processes, which make
 * system calls there: clients of liboutboard-client, docs/remote-clients.md. The program goes on to
 * use its kernel. docs/examples/serve.c is a complete program.
 *
 * The rules for names, errors, memory and callbacks are those of all headers: docs/c-api.md. A
 * function that returns int returns 0 or a number, or -errno; ob_serve_error() then has the text.
 *
 * A client is a process of the kernel of its own, with descriptors, rights and children of its own.
 * It begins at the root that the kernel had at its boot, whatever the program does by chroot(2).
 *
 * Threads. Any thread may call any function at any time, but no signal handler. Clients are served
 * by threads of this library, which handle no signals of the program.
 *
 * Forks. A child of fork() serves nobody: its parent goes on to do so. The child can boot a kernel
 * of its own, and serve that.
 */
#ifndef OUTBOARD_SERVER_H
#define OUTBOARD_SERVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ob_instance;

/* A user of the host, and the user and group in the kernel that clients of it are. */
struct ob_serve_user {
	uint32_t user;
	uint32_t inside_user;		/* 0 has all rights in the kernel */
	uint32_t inside_group;
};

struct ob_serve_config {
	size_t size;			/* sizeof(struct ob_serve_config) */
	/*
	 * Users besides the program's own and root who may connect to a unix: socket. The first
	 * entry for a user counts. With any, the socket has the mode 0666, else 0600.
	 */
	const struct ob_serve_user *users;
	uint32_t user_count;
	uint32_t flags;			/* 0 */
};

/*
 * Serves the kernel at a URL from now on, in the background, beside those at which it is served
 * already: "unix:PATH", "tcp:HOST:PORT,token=FILE", "tls:HOST:PORT,certificates=DIRECTORY". For the
 * last two, ",user=USER[:GROUP]" names the user in the kernel that clients are; without it they are
 * 65534, who has no rights. docs/using/server.md describes tokens and certificates. The program's
 * own user, and root, are root in the kernel if they come by a unix: socket. `config` (may be NULL:
 * defaults) is not used after the call.
 *
 * A socket that a killed server has left is replaced. Serving ends by ob_serve_end(), and before
 * ob_halt() halts the kernel. A program that ends without either leaves the file of the socket.
 *
 * Returns the port for a URL of a network, which may have had port 0, and else 0; or -ENODEV (no
 * kernel runs), -EINVAL (it is no such URL, or the configuration is wrong), -EADDRINUSE (a server
 * listens there), or the host's error. Blocks for a second at most, if another server starts at the
 * same path.
 */
int ob_serve(const char *url, const struct ob_serve_config *config);

/*
 * Ends serving: no client connects any more, all processes of clients are killed in the kernel,
 * files of sockets are removed. Does nothing if the kernel is not served. Blocks until calls of
 * clients have ended, for 20 s at most: one that waits for a server that is gone may go on.
 */
void ob_serve_end(void);

/* The text of the calling thread's last failure: "" if there was none. Valid until the next one. */
const char *ob_serve_error(void);

/* The same for any instance. NULL is -EINVAL. */
int ob_serve_on(struct ob_instance *instance, const char *url,
		const struct ob_serve_config *config);
void ob_serve_end_on(struct ob_instance *instance);

#ifdef __cplusplus
}
#endif

#endif
