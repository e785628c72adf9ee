/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Network interfaces of a kernel: adds them, configures them, removes them. docs/net.md has the
 * words of descriptions, and examples.
 *
 * Functions return -EINVAL for a description that is wrong; then nothing was made or changed.
 * -ENODEV: no kernel runs. -ENOSYS: the kernel has no network. Else the error of the host or of
 * Linux; then everything that the call had made or changed is undone. ob_net_error() has the
 * reason.
 */
#ifndef OUTBOARD_NET_H
#define OUTBOARD_NET_H

#ifdef __cplusplus
extern "C" {
#endif

struct ob_instance;

/*
 * Adds an interface, as "tap:tap0,ip=10.0.0.2/24,gw=10.0.0.1" describes it. `name` (may be NULL)
 * receives its name, as "eth0". Loopback comes up, too. Returns the interface's number (>= 0), or
 * -EEXIST (an interface has that name already), -ETIMEDOUT (no lease or address came in time),
 * -EXDEV (the calling thread is in another network namespace than the kernel's first one).
 * Blocks while it waits for a lease.
 */
int ob_net_add(const char *description, char name[16]);

/*
 * Changes an interface that exists, as "ip=10.0.0.2/24,mtu=1400": also "lo" and those that the
 * program made by netlink. Words as for ob_net_add, but for those of devices. Works in the calling
 * thread's network namespace. Returns 0, or -ENOENT (no interface has that name), -EEXIST (it has
 * the address or the route already), -EBUSY (another call changes the interface now), -ETIMEDOUT.
 */
int ob_net_configure(const char *name, const char *changes);

/*
 * Removes an interface that ob_net_add made, ends its DHCP clients, drops its name servers.
 * -ENOENT: there is none of that number; -EBUSY: another call changes it now, or a thread that was
 * stopped is in the middle of a frame. After another error of the kernel the interface stays,
 * without its DHCP clients.
 */
int ob_net_remove(int number);

/*
 * Offers a port of a hub as a back-end of vhost-user: listens on a UNIX socket at the path
 * `socket`, which only this user can reach. A front-end that connects, as QEMU's netdev vhost-user
 * does, waits until ob_net_server_start(). `hub` is as "hub:/run/lab" or "hub:/run/lab,mtu=9000".
 * `log` (may be NULL) receives a line about each front-end that is refused, on another thread.
 * Needs no kernel. Stores a handle for ob_net_server_free(). Returns 0, or -EADDRINUSE (a process
 * listens there), or the host's error.
 */
struct ob_net_server;
int ob_net_server_new(const char *hub, const char *socket,
		      void (*log)(void *context, const char *line), void *context,
		      struct ob_net_server **server);

/*
 * Serves on a thread from now on: a front-end is on the segment until it has gone. One front-end
 * at a time; others wait. At most once for each handle. `opener`: -1. Or, in a process in a sandbox
 * that opens no files, one end of a pair of stream sockets, which is copied. The process that
 * called fork() after ob_net_server_new() calls ob_net_server_open_files() with the other end.
 * Returns 0 or the host's error. A child that fork() makes later has no server.
 */
int ob_net_server_start(struct ob_net_server *server, int opener);

/*
 * Opens the hub, and the memory of its ports, for a copy of the process that serves. Trusts nothing
 * that comes from `socket`. Blocks until the other process has closed its end. Any thread.
 */
void ob_net_server_open_files(const struct ob_net_server *server, int socket);

/* Disconnects the front-end, removes the socket, frees the handle. Blocks for a moment. */
void ob_net_server_free(struct ob_net_server *server);

/*
 * Rootless NAT by libslirp in a process without a kernel. The process with the kernel adds the
 * interface "stream:NUMBER", with the number of one end of a pair of stream sockets, and so needs
 * no sockets of the host. Packets to 127.0.0.0/8 and ::1 are dropped. Not for several threads.
 *
 * ob_net_nat_new loads libslirp, and opens ports of the host that lead to the kernel: `forwards`
 * (may be NULL) is as "127.0.0.1:8080:80,udp:53:5353". `flags`: OB_NET_NAT_*. Stores a handle.
 * Returns 0, -EINVAL, -ENOENT (libslirp is not installed) or the host's error. "fd=3:80" leads a
 * TCP socket of the process that listens already, such as one of systemd, to the kernel's port 80.
 * It must stay open, and take connections of one family only.
 *
 * ob_net_nat_serve serves the kernel behind the other end, `socket`. Blocks until it is closed.
 * Trusts nothing that comes from it. `gate`: -1, or a socket that brings numbers, one byte each. 0
 * is the first descriptor among the forwards. Its socket takes no connections before: so clients
 * wait until a server of the kernel listens.
 *
 * ob_net_nat_free closes all sockets, and frees the handle.
 */
#define OB_NET_NAT_NO_IPV6 1u
#define OB_NET_NAT_NO_HOST_LOOPBACK 2u	/* the gateway's address does not lead to the host's */
struct ob_net_nat;
int ob_net_nat_new(const char *forwards, unsigned int flags, struct ob_net_nat **nat);
void ob_net_nat_serve(struct ob_net_nat *nat, int socket, int gate);
void ob_net_nat_free(struct ob_net_nat *nat);

/* Why the calling thread's last call of this header failed, in one line; "" if it did not. */
const char *ob_net_error(void);

/* The same on an instance: <outboard/outboard.h>. */
int ob_net_add_on(struct ob_instance *instance, const char *description, char name[16]);
int ob_net_configure_on(struct ob_instance *instance, const char *name, const char *changes);
int ob_net_remove_on(struct ob_instance *instance, int number);

#ifdef __cplusplus
}
#endif
#endif
