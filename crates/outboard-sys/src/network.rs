// SPDX-License-Identifier: GPL-2.0-only
//! System calls on sockets, as safe functions.
//!
//! No call here is repeated after EINTR: the caller decides, see `ob_interrupt`. No call raises
//! SIGPIPE.

use crate::system::{pointer, pointer_mut, System};
use crate::Fd;
use libc::{c_int, c_long, c_short};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{size_of, MaybeUninit};
use std::time::Duration;

/// Most bytes of a socket address (`struct sockaddr_storage`).
const ADDRESS_SIZE: usize = 128;
/// Most bytes of an option's value.
const OPTION_SIZE: usize = 16;
/// Most buffers of one vectored call (IOV_MAX).
const VECTOR_LIMIT: usize = 1024;

/// A socket address in the kernel's layout. It begins with the family, in two bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct RawAddress {
    bytes: [u8; ADDRESS_SIZE],
    length: u32,
}

impl RawAddress {
    /// An address of these bytes. `None`: they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut address = Self::empty();
        address.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        address.length = bytes.len() as u32;
        Some(address)
    }

    fn empty() -> Self {
        Self {
            bytes: [0; ADDRESS_SIZE],
            length: 0,
        }
    }

    /// All bytes, the family included.
    pub fn bytes(&self) -> &[u8] {
        // The kernel stores the untruncated length.
        &self.bytes[..ADDRESS_SIZE.min(self.length as usize)]
    }

    /// `AF_*`. `AF_UNSPEC` of an empty address.
    pub fn family(&self) -> c_int {
        let bytes = self.bytes().first_chunk().copied();
        bytes.map_or(libc::AF_UNSPEC, |family| u16::from_ne_bytes(family).into())
    }
}

/// Address, pointer to its length, for calls that return an address.
fn place_for(address: &mut RawAddress) -> [usize; 2] {
    address.length = ADDRESS_SIZE as u32;
    [
        pointer_mut(&mut address.bytes),
        pointer_mut(&mut address.length),
    ]
}

/// An option of a socket that has no pointer in its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOption {
    level: c_int,
    name: c_int,
}

macro_rules! options {
    ($($(#[$line:meta])* $constant:ident = $level:ident, $name:ident;)*) => {
        impl SocketOption {
            $(#[doc = concat!("`", stringify!($name), "`.")]
            ///
            $(#[$line])* pub const $constant: Self = Self {
                level: libc::$level,
                name: libc::$name,
            };)*
        }
    };
}

options! {
    BROADCAST = SOL_SOCKET, SO_BROADCAST;
    /// The pending error, which is cleared by reading.
    ERROR = SOL_SOCKET, SO_ERROR;
    KEEP_ALIVE = SOL_SOCKET, SO_KEEPALIVE;
    /// Two 32-bit numbers: on or off, seconds.
    LINGER = SOL_SOCKET, SO_LINGER;
    /// Process, user, group: 32 bits each.
    PEER_CREDENTIALS = SOL_SOCKET, SO_PEERCRED;
    RECEIVE_BUFFER = SOL_SOCKET, SO_RCVBUF;
    /// Like `RECEIVE_BUFFER` without the limit of net.core.rmem_max.
    RECEIVE_BUFFER_FORCED = SOL_SOCKET, SO_RCVBUFFORCE;
    /// `struct timeval`.
    RECEIVE_TIMEOUT = SOL_SOCKET, SO_RCVTIMEO;
    REUSE_ADDRESS = SOL_SOCKET, SO_REUSEADDR;
    REUSE_PORT = SOL_SOCKET, SO_REUSEPORT;
    SEND_BUFFER = SOL_SOCKET, SO_SNDBUF;
    /// Like `SEND_BUFFER` without the limit of net.core.wmem_max.
    SEND_BUFFER_FORCED = SOL_SOCKET, SO_SNDBUFFORCE;
    /// `struct timeval`.
    SEND_TIMEOUT = SOL_SOCKET, SO_SNDTIMEO;
    NO_DELAY = IPPROTO_TCP, TCP_NODELAY;
    TTL = IPPROTO_IP, IP_TTL;
    MULTICAST_LOOP_V4 = IPPROTO_IP, IP_MULTICAST_LOOP;
    MULTICAST_TTL_V4 = IPPROTO_IP, IP_MULTICAST_TTL;
    /// Group and address of the interface: 4 bytes each.
    JOIN_V4 = IPPROTO_IP, IP_ADD_MEMBERSHIP;
    LEAVE_V4 = IPPROTO_IP, IP_DROP_MEMBERSHIP;
    ONLY_V6 = IPPROTO_IPV6, IPV6_V6ONLY;
    MULTICAST_LOOP_V6 = IPPROTO_IPV6, IPV6_MULTICAST_LOOP;
    /// Group (16 bytes) and index of the interface.
    JOIN_V6 = IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP;
    LEAVE_V6 = IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP;
    NETLINK_CAP_ACK = SOL_NETLINK, NETLINK_CAP_ACK;
    NETLINK_EXT_ACK = SOL_NETLINK, NETLINK_EXT_ACK;
    NETLINK_STRICT_CHECK = SOL_NETLINK, NETLINK_GET_STRICT_CHK;
}

impl System {
    /// Makes a socket. `kind`: `SOCK_*` (`SOCK_CLOEXEC` is added).
    pub fn socket(&self, family: c_int, kind: c_int, protocol: c_int) -> io::Result<Fd> {
        let kind = (kind | libc::SOCK_CLOEXEC) as usize;
        let arguments = [family as usize, kind, protocol as usize, 0, 0, 0];
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe { self.call(libc::SYS_socket, arguments) }?;
        Ok(Fd::own(self, raw))
    }

    /// Makes two UNIX sockets that are connected to each other. `kind`: `SOCK_*`.
    pub fn socket_pair(&self, kind: c_int) -> io::Result<(Fd, Fd)> {
        let mut pair = [0 as c_int; 2];
        let kind = (kind | libc::SOCK_CLOEXEC) as usize;
        let arguments = [
            libc::AF_UNIX as usize,
            kind,
            0,
            pointer_mut(&mut pair),
            0,
            0,
        ];
        // SAFETY: the kernel stores two descriptors, for which there is room.
        unsafe { self.call(libc::SYS_socketpair, arguments) }?;
        Ok((
            Fd::own(self, pair[0] as usize),
            Fd::own(self, pair[1] as usize),
        ))
    }

    /// The number that `interrupt` takes for the calling thread.
    pub fn thread(&self) -> io::Result<i32> {
        // SAFETY: has no arguments.
        unsafe { self.call(libc::SYS_gettid, [0; 6]) }.map(|number| number as i32)
    }

    /// Fills the buffer with random bytes.
    pub fn random(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let arguments = [pointer_mut(buffer), buffer.len(), 0, 0, 0, 0];
            // SAFETY: the kernel writes at most the buffer's length.
            let length = unsafe { self.call(libc::SYS_getrandom, arguments) }?;
            buffer = &mut buffer[length..];
        }
        Ok(())
    }

    /// Blocks until the time is over. EINTR: `ob_interrupt` has ended the call.
    pub fn sleep(&self, time: Duration) -> io::Result<()> {
        poll(self, &mut [], Some(time)).map(drop)
    }
}

/// poll(2) of these descriptors. `None`: no time limit. Returns how many are ready.
fn poll(system: &System, asked: &mut [libc::pollfd], limit: Option<Duration>) -> io::Result<usize> {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let limit_pointer = limit.as_ref().map_or(0, pointer);
    let arguments = [pointer_mut(asked), asked.len(), limit_pointer, 0, 0, 0];
    // SAFETY: the structures and the limit have the kernel's layout and outlive the call.
    unsafe { system.call(libc::SYS_ppoll, arguments) }
}

/// A message with these buffers, for sendmsg(2) and recvmsg(2).
fn message(buffers: *const libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all-zero is valid for the structure.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = buffers.cast_mut();
    message.msg_iovlen = count.min(VECTOR_LIMIT) as _;
    message
}

impl Fd {
    /// One system call, which EINTR may end.
    ///
    /// # Safety
    /// As for `System::call`; the descriptor is the first argument.
    unsafe fn call_once(&self, number: c_long, a: [usize; 5]) -> io::Result<usize> {
        let descriptor = self.raw() as usize;
        // SAFETY: the caller's promise.
        unsafe {
            self.system()
                .call(number, [descriptor, a[0], a[1], a[2], a[3], a[4]])
        }
    }

    /// Gives a socket its own address.
    pub fn bind(&self, address: &RawAddress) -> io::Result<()> {
        let bytes = address.bytes();
        // SAFETY: the kernel reads at most the length of the address.
        unsafe { self.call_once(libc::SYS_bind, [pointer(bytes), bytes.len(), 0, 0, 0]) }.map(drop)
    }

    /// Connects a socket.
    pub fn connect(&self, address: &RawAddress) -> io::Result<()> {
        let bytes = address.bytes();
        // SAFETY: the kernel reads at most the length of the address.
        unsafe { self.call_once(libc::SYS_connect, [pointer(bytes), bytes.len(), 0, 0, 0]) }
            .map(drop)
    }

    /// Lets others connect to a socket.
    pub fn listen(&self, backlog: c_int) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call_once(libc::SYS_listen, [backlog as usize, 0, 0, 0, 0]) }.map(drop)
    }

    /// Waits for a connection. Returns its socket and the address of the peer.
    pub fn accept(&self) -> io::Result<(Self, RawAddress)> {
        let mut address = RawAddress::empty();
        let [place, length] = place_for(&mut address);
        let flags = libc::SOCK_CLOEXEC as usize;
        // SAFETY: `place` has the length that the kernel finds at `length`; both outlive the call.
        let raw = unsafe { self.call_once(libc::SYS_accept4, [place, length, flags, 0, 0]) }?;
        Ok((Self::own(self.system(), raw), address))
    }

    fn address_by(&self, number: c_long) -> io::Result<RawAddress> {
        let mut address = RawAddress::empty();
        let [place, length] = place_for(&mut address);
        // SAFETY: `place` has the length that the kernel finds at `length`; both outlive the call.
        unsafe { self.call_once(number, [place, length, 0, 0, 0]) }?;
        Ok(address)
    }

    /// The socket's own address.
    pub fn local_address(&self) -> io::Result<RawAddress> {
        self.address_by(libc::SYS_getsockname)
    }

    /// The address that a socket is connected to.
    pub fn peer_address(&self) -> io::Result<RawAddress> {
        self.address_by(libc::SYS_getpeername)
    }

    /// Receives into the buffer. `flags`: `MSG_*`.
    pub fn receive(&self, buffer: &mut [u8], flags: c_int) -> io::Result<usize> {
        let arguments = [pointer_mut(buffer), buffer.len(), flags as usize, 0, 0];
        // SAFETY: the kernel writes at most the buffer's length, and no address.
        unsafe { self.call_once(libc::SYS_recvfrom, arguments) }
    }

    /// Receives into the buffer. Returns the number of bytes and the sender's address.
    pub fn receive_from(&self, buffer: &mut [u8], flags: c_int) -> io::Result<(usize, RawAddress)> {
        let mut address = RawAddress::empty();
        let [place, length] = place_for(&mut address);
        let arguments = [
            pointer_mut(buffer),
            buffer.len(),
            flags as usize,
            place,
            length,
        ];
        // SAFETY: the kernel writes at most the buffer's length, and at `place` no more than it
        // finds at `length`.
        let received = unsafe { self.call_once(libc::SYS_recvfrom, arguments) }?;
        Ok((received, address))
    }

    /// Receives into several buffers, one after the other.
    pub fn receive_vectored(&self, buffers: &mut [IoSliceMut]) -> io::Result<usize> {
        let mut message = message(buffers.as_mut_ptr().cast(), buffers.len());
        // SAFETY: an IoSliceMut has the layout of an iovec; the kernel writes at most into the
        // buffers, which outlive the call.
        unsafe { self.call_once(libc::SYS_recvmsg, [pointer_mut(&mut message), 0, 0, 0, 0]) }
    }

    /// Sends the buffer. `flags`: `MSG_*`.
    pub fn send(&self, buffer: &[u8], flags: c_int) -> io::Result<usize> {
        let flags = (flags | libc::MSG_NOSIGNAL) as usize;
        let arguments = [pointer(buffer), buffer.len(), flags, 0, 0];
        // SAFETY: the kernel reads at most the buffer's length, and no address.
        unsafe { self.call_once(libc::SYS_sendto, arguments) }
    }

    /// Sends the buffer to an address.
    pub fn send_to(&self, buffer: &[u8], flags: c_int, to: &RawAddress) -> io::Result<usize> {
        let flags = (flags | libc::MSG_NOSIGNAL) as usize;
        let to = to.bytes();
        let arguments = [pointer(buffer), buffer.len(), flags, pointer(to), to.len()];
        // SAFETY: the kernel reads at most the lengths of buffer and address.
        unsafe { self.call_once(libc::SYS_sendto, arguments) }
    }

    /// Sends several buffers, one after the other.
    pub fn send_vectored(&self, buffers: &[IoSlice]) -> io::Result<usize> {
        let message = message(buffers.as_ptr().cast(), buffers.len());
        let flags = libc::MSG_NOSIGNAL as usize;
        // SAFETY: an IoSlice has the layout of an iovec; the kernel only reads the buffers, which
        // outlive the call.
        unsafe { self.call_once(libc::SYS_sendmsg, [pointer(&message), flags, 0, 0, 0]) }
    }

    /// Ends a direction of a connection, or both. `how`: `SHUT_*`.
    pub fn shut_down(&self, how: c_int) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call_once(libc::SYS_shutdown, [how as usize, 0, 0, 0, 0]) }.map(drop)
    }

    /// Sets an option of a socket.
    pub fn set_socket_option(&self, option: SocketOption, value: &[u8]) -> io::Result<()> {
        let arguments = [
            option.level as usize,
            option.name as usize,
            pointer(value),
            value.len(),
            0,
        ];
        // SAFETY: the kernel reads at most the length of the value, in which no option that
        // `SocketOption` has names a pointer.
        unsafe { self.call_once(libc::SYS_setsockopt, arguments) }.map(drop)
    }

    /// An option of a socket, in `N` bytes. EINVAL: the option has another size.
    pub fn socket_option<const N: usize>(&self, option: SocketOption) -> io::Result<[u8; N]> {
        const { assert!(N <= OPTION_SIZE) };
        let mut value = [0; N];
        let mut length = N as u32;
        let arguments = [
            option.level as usize,
            option.name as usize,
            pointer_mut(&mut value),
            pointer_mut(&mut length),
            0,
        ];
        // SAFETY: the kernel writes at most `length` bytes of the value.
        unsafe { self.call_once(libc::SYS_getsockopt, arguments) }?;
        if length as usize == N {
            Ok(value)
        } else {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }

    /// Whether calls fail with EAGAIN instead of blocking, for all descriptors of this open file.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let flag = libc::O_NONBLOCK as usize;
        // SAFETY: has only numbers as its arguments.
        let old = unsafe { self.call(libc::SYS_fcntl, [libc::F_GETFL as usize, 0, 0, 0, 0]) }?;
        let new = if nonblocking { old | flag } else { old & !flag };
        // SAFETY: has only numbers as its arguments.
        unsafe { self.call(libc::SYS_fcntl, [libc::F_SETFL as usize, new, 0, 0, 0]) }.map(drop)
    }

    /// Waits until one of these events (`POLL*`) is there. `None`: no time limit. Returns the
    /// events; 0 when the time is over. EINTR ends the call.
    pub fn poll(&self, events: c_short, limit: Option<Duration>) -> io::Result<c_short> {
        let mut asked = [libc::pollfd {
            fd: self.raw(),
            events,
            revents: 0,
        }];
        poll(self.system(), &mut asked, limit)?;
        Ok(asked[0].revents)
    }

    /// Moves the calling thread into the namespace that this file of /proc/PID/ns names. `kind`:
    /// `CLONE_NEW*`.
    pub fn enter_namespace(&self, kind: c_int) -> io::Result<()> {
        // SAFETY: has only numbers as its arguments; a namespace is no matter of memory.
        unsafe { self.call(libc::SYS_setns, [kind as usize, 0, 0, 0, 0]) }.map(drop)
    }
}

/// A record of epoll, in the kernel's layout.
pub type EpollEvent = libc::epoll_event;

/// A set of files to wait for: epoll(7).
#[derive(Debug)]
pub struct Epoll(Fd);

impl Epoll {
    /// An empty set.
    pub fn new(system: &System) -> io::Result<Self> {
        let arguments = [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0];
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe { system.call(libc::SYS_epoll_create1, arguments) }?;
        Ok(Self(Fd::own(system, raw)))
    }

    fn control(&self, operation: c_int, file: &Fd, events: u32, token: u64) -> io::Result<()> {
        if self.0.system() != file.system() {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let event = EpollEvent { events, u64: token };
        let arguments = [
            operation as usize,
            file.raw() as usize,
            pointer(&event),
            0,
            0,
        ];
        // SAFETY: the structure has the kernel's layout and outlives the call.
        unsafe { self.0.call(libc::SYS_epoll_ctl, arguments) }.map(drop)
    }

    /// Adds a file. `events`: `EPOLL*`.
    pub fn add(&self, file: &Fd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, file, events, token)
    }

    /// Removes a file.
    pub fn remove(&self, file: &Fd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, file, 0, 0)
    }

    /// Waits for events without a time limit. EINTR ends the call.
    pub fn wait<'a>(&self, buffer: &'a mut [EpollEvent]) -> io::Result<&'a [EpollEvent]> {
        let room = buffer.len().min(c_int::MAX as usize);
        let forever = -1_i32 as usize;
        let arguments = [pointer_mut(buffer), room, forever, 0, 0];
        // SAFETY: the kernel writes at most `room` structures of its own layout.
        let count = unsafe { self.0.call_once(libc::SYS_epoll_wait, arguments) }?;
        Ok(&buffer[..count])
    }
}

const _: () = assert!(size_of::<RawAddress>() >= ADDRESS_SIZE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_limits() {
        let address = RawAddress::new(&[2, 0, 9]).unwrap();
        assert_eq!(address.bytes(), [2, 0, 9]);
        assert_eq!(address.family(), libc::AF_INET);
        assert_eq!(RawAddress::new(&[1]).unwrap().family(), libc::AF_UNSPEC);
        assert!(RawAddress::new(&[0; ADDRESS_SIZE + 1]).is_none());
        let mut long = RawAddress::new(&[1; ADDRESS_SIZE]).unwrap();
        long.length = 500;
        assert_eq!(long.bytes().len(), ADDRESS_SIZE);
    }

    /// The functions work on the host's kernel, too.
    #[test]
    fn a_pair_of_the_host() -> io::Result<()> {
        let (one, other) = System::Host.socket_pair(libc::SOCK_STREAM)?;
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
        assert_eq!(one.send_vectored(&parts)?, 4);
        assert_eq!(other.poll(libc::POLLIN, None)?, libc::POLLIN);
        let (mut a, mut b) = ([0; 1], [0; 3]);
        let mut room = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(other.receive_vectored(&mut room)?, 4);
        assert_eq!((&a, &b), (b"a", b"bcd"));
        assert_eq!(other.poll(libc::POLLIN, Some(Duration::ZERO))?, 0);
        let nobody = other.socket_option::<8>(SocketOption::ERROR);
        assert_eq!(nobody.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        Ok(())
    }
}
