// SPDX-License-Identifier: MIT
//! The socket of a connection: a stream of frames with descriptors, which the program does not see
//! among its own descriptors.

use outboard_protocol::url::ServerUrl;
use outboard_slot::forks;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    connect, recvmsg, send, shutdown, socket_with, AddressFamily, RecvAncillaryBuffer,
    RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

/// Descriptors below this number are the program's, if its limit allows it.
const LEAST: i32 = 1000;
/// A server that does not answer for so long is no server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected socket.
#[derive(Debug)]
pub(crate) struct ServerSocket {
    /// Not closed if the program has closed it already, or in a child.
    descriptor: Option<OwnedFd>,
    inode: u64,
    /// In this process it is used: see [`forks::forks`].
    forks: u64,
    /// Other descriptors that a child has to close: those of a thread that speaks TLS.
    behind: Vec<i32>,
}

impl ServerSocket {
    /// Connects. Waits 10 s at most, for each address of a host.
    pub(crate) fn connect(url: &ServerUrl) -> io::Result<Self> {
        if let ServerUrl::Unix(path) = url {
            return Self::connect_to_path(path);
        }
        let dialed = outboard_tls::dial(url)?;
        let mut socket = Self::new(dialed.stream.into())?;
        for number in dialed.behind {
            // A thread that has ended already has closed them.
            if let Some(inode) = forks::inode(number) {
                forks::close_in_children(number, inode);
                socket.behind.push(number);
            }
        }
        Ok(socket)
    }

    fn connect_to_path(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let low = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let socket = Self::new(low)?;
        connect(socket.descriptor()?, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// Takes a socket over.
    fn new(low: OwnedFd) -> io::Result<Self> {
        let high = fcntl_dupfd_cloexec(&low, LEAST).or_else(|_| fcntl_dupfd_cloexec(&low, 3))?;
        drop(low);
        // Linux restarts no call with a time limit: a signal is noticed.
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&high, direction, Some(PATIENCE))?;
        }
        let inode = forks::inode(high.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        forks::close_in_children(high.as_raw_fd(), inode);
        Ok(Self {
            descriptor: Some(high),
            inode,
            forks: forks::forks(),
            behind: Vec::new(),
        })
    }

    /// The descriptor, unless the program has closed it or this is a child.
    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let is_own = |descriptor: &&OwnedFd| {
            self.forks == forks::forks() && forks::inode(descriptor.as_raw_fd()) == Some(self.inode)
        };
        let descriptor = self.descriptor.as_ref().filter(is_own);
        let closed = || io::Error::from_raw_os_error(libc::EBADF);
        Ok(descriptor.ok_or_else(closed)?.as_fd())
    }

    /// Whether the server has neither ended nor closed the connection.
    pub(crate) fn is_open(&self) -> bool {
        let Ok(descriptor) = self.descriptor() else {
            return false;
        };
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut polled, Some(&now)) {
            Ok(0) => true,
            Ok(_) => polled[0].revents().is_empty(),
            Err(error) => error == rustix::io::Errno::INTR,
        }
    }

    /// Ends the connection, also for those who use the socket now.
    pub(crate) fn shut_down(&self) {
        if let Ok(descriptor) = self.descriptor() {
            let _ = shutdown(descriptor, Shutdown::Both);
        }
    }

    /// Reads the stream; descriptors that come with it are kept in the reader.
    pub(crate) fn reader(&self) -> FrameReader<'_> {
        FrameReader {
            socket: self,
            received: None,
        }
    }
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        let is_own = self.descriptor().is_ok();
        let Some(descriptor) = self.descriptor.take() else {
            return;
        };
        forks::forget(descriptor.as_raw_fd());
        self.behind.iter().for_each(|&number| forks::forget(number));
        if !is_own {
            // The number is somebody else's by now.
            let _ = descriptor.into_raw_fd();
        }
    }
}

impl Write for &ServerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The server's end is no SIGPIPE for the program.
        Ok(send(self.descriptor()?, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a frame, and the descriptor that comes with it.
pub(crate) struct FrameReader<'a> {
    socket: &'a ServerSocket,
    /// The last descriptor; others are closed.
    pub(crate) received: Option<OwnedFd>,
}

impl Read for FrameReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = recvmsg(self.socket.descriptor()?, &mut parts, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.received = descriptors.last();
            }
        }
        Ok(read.bytes)
    }
}
