// SPDX-License-Identifier: GPL-2.0-only
//! Descriptors that processes of the host send each other over a socket.

use libc::c_int;
use std::io;
use std::mem::{size_of, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for one descriptor as a control message, aligned as such.
#[repr(C, align(8))]
struct Room([u8; 64]);

/// Works with a message of these bytes that has room for a descriptor. A message that is sent
/// leaves them as they are.
fn with_message<T>(bytes: *mut [u8], work: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut room = Room([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero is valid for the structure.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = room.0.len() as _;
    work(&mut message)
}

/// Calls again when a signal came in between.
fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(result) = usize::try_from(call()) {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits for a message with a descriptor. `UnexpectedEof`: the sender ended without one.
pub fn receive_fd(socket: impl AsFd) -> io::Result<OwnedFd> {
    receive_with_fd(socket, &mut [0]).map(|(_, fd)| fd)
}

/// Waits for bytes of which one carries a descriptor. Returns how many came. `UnexpectedEof`: they
/// carry none.
pub fn receive_with_fd(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, OwnedFd)> {
    let socket = socket.as_fd().as_raw_fd();
    with_message(bytes, |message| {
        // SAFETY: `message` points to buffers of the sizes that it says, which outlive the call.
        let received =
            uninterrupted(|| unsafe { libc::recvmsg(socket, message, libc::MSG_CMSG_CLOEXEC) })?;
        // SAFETY: the kernel filled `message`; CMSG_FIRSTHDR checks that a header fits. One that
        // carries rights and is long enough has a descriptor in it that is ours alone.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            let needed = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            if header.is_null()
                || (*header).cmsg_level != libc::SOL_SOCKET
                || (*header).cmsg_type != libc::SCM_RIGHTS
                || ((*header).cmsg_len as usize) < needed
            {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let raw = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
            Ok((received, OwnedFd::from_raw_fd(raw)))
        }
    })
}

/// Waits for a connection to a socket that listens.
pub fn accept(socket: impl AsFd) -> io::Result<OwnedFd> {
    let socket = socket.as_fd().as_raw_fd();
    let mut number = -1;
    uninterrupted(|| {
        let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: accept4 writes no address if there is no place for one.
        number = unsafe { libc::accept4(socket, address, length, libc::SOCK_CLOEXEC) };
        number as isize
    })?;
    // SAFETY: the new number belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The process at the other end of a Unix socket, as the host's kernel noted it when that
/// connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The number of the process. It may have ended.
    pub process: i32,
    /// The number of its effective user.
    pub user: u32,
    /// The number of its effective group.
    pub group: u32,
}

/// Asks the host who is at the other end of a connected Unix socket.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` has `size` bytes, and the descriptor is open during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut size,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCredentials {
        process: found.pid,
        user: found.uid,
        group: found.gid,
    })
}

/// Sends a descriptor, with a byte that carries it.
pub fn send_fd(socket: impl AsFd, fd: BorrowedFd) -> io::Result<()> {
    send_with_fd(socket, &[0], fd).map(drop)
}

/// Sends bytes, the first of which carries a descriptor. Returns how many were sent: at least one.
pub fn send_with_fd(socket: impl AsFd, bytes: &[u8], fd: BorrowedFd) -> io::Result<usize> {
    let socket = socket.as_fd().as_raw_fd();
    with_message((&raw const *bytes).cast_mut(), |message| {
        // SAFETY: these only compute lengths; there is more room than one descriptor needs, and it
        // is aligned for a header, which is what CMSG_FIRSTHDR returns then.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(header)
                .cast::<c_int>()
                .write_unaligned(fd.as_raw_fd());
        }
        // SAFETY: `message` points to buffers of the sizes that it says, which outlive the call.
        uninterrupted(|| unsafe { libc::sendmsg(socket, message, libc::MSG_NOSIGNAL) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_descriptor_arrives() {
        let (sender, receiver) = UnixStream::pair().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        send_fd(&sender, theirs.as_fd()).unwrap();
        drop(theirs);
        let mut arrived = File::from(receive_fd(&receiver).unwrap());
        ours.write_all(b"x").unwrap();
        let mut byte = [0];
        arrived.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn a_peer_is_known() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&ours).unwrap();
        assert_eq!(peer.process as u32, std::process::id());
        assert_eq!(peer.user, crate::System::Host.effective_user());
        assert!(peer_credentials(File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_connection_is_accepted() {
        let directory = std::env::temp_dir().join(format!("accept-{}", std::process::id()));
        let listener = UnixListener::bind(&directory).unwrap();
        let mut client = UnixStream::connect(&directory).unwrap();
        std::fs::remove_file(&directory).unwrap();
        let mut accepted = UnixStream::from(accept(&listener).unwrap());
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        accepted.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(accept(&client).is_err());
    }

    #[test]
    fn a_message_without_a_descriptor_is_refused() {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        sender.write_all(b"x").unwrap();
        assert!(receive_fd(&receiver).is_err());
        drop(sender);
        assert!(receive_fd(&receiver).is_err());
    }
}
