// SPDX-License-Identifier: GPL-2.0-only
//! Requests to the kernel's rtnetlink, over a netlink socket of the kernel.
//!
//! The crate netlink-packet-route has the messages. The kernel answers a request while it is sent,
//! so nothing here waits long. An error carries the kernel's explanation, if it has one.

use crate::invalid::invalid_data;
use crate::net::socket::Socket;
use crate::net::Net;
use netlink_packet_core::{
    ErrorMessage, NetlinkHeader, NetlinkMessage, NetlinkPayload, NlasIterator, NLM_F_ACK,
    NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
};
use netlink_packet_route::RouteNetlinkMessage;
use outboard_sys::{explained, libc, SocketOption};
use std::cell::Cell;
use std::io;

/// The kernel sends parts of lists of at most 32 KiB.
const BUFFER_SIZE: usize = 64 << 10;
/// Other answers are short.
const ANSWER_SIZE: usize = 8 << 10;
/// How often a list is asked for that changed meanwhile.
const DUMP_ATTEMPTS: usize = 16;
/// Header of the request that an error message repeats (NETLINK_CAP_ACK).
const HEADER_SIZE: usize = 16;
/// NLMSGERR_ATTR_MSG: the explanation.
const EXPLANATION: u16 = 1;

pub(crate) struct Netlink {
    socket: Socket,
    sequence: Cell<u32>,
}

fn malformed(error: impl std::fmt::Display) -> io::Error {
    invalid_data(format!("netlink message: {error}"))
}

/// The error of a message, with the kernel's explanation. `None`: it acknowledges.
fn failure(message: &ErrorMessage, has_explanation: bool) -> Option<io::Error> {
    message.code?;
    let cause = message.to_io();
    let attributes = message.header.get(HEADER_SIZE..).unwrap_or_default();
    let text = NlasIterator::new(attributes)
        .take(8)
        .flatten()
        .find(|attribute| has_explanation && attribute.kind() == EXPLANATION)
        .map(|attribute| {
            let text = String::from_utf8_lossy(attribute.value());
            text.trim_end_matches('\0').to_owned()
        });
    Some(match text {
        Some(text) => {
            let text = format!("{cause}: {text}");
            explained(cause, text)
        }
        None => cause,
    })
}

/// Names what failed.
pub(crate) fn describe(error: io::Error, what: std::fmt::Arguments) -> io::Error {
    let text = format!("{what}: {error}");
    explained(error, text)
}

/// The messages of a datagram.
fn messages(mut bytes: &[u8]) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::deserialize(bytes).map_err(malformed)?;
        let length = (message.header.length as usize).next_multiple_of(4);
        bytes = bytes.get(length.max(HEADER_SIZE)..).unwrap_or_default();
        all.push(message);
    }
    Ok(all)
}

impl Netlink {
    /// A socket in the namespace of `net`.
    pub(crate) fn open(net: &Net) -> io::Result<Self> {
        let socket = net.socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        for option in [
            SocketOption::NETLINK_CAP_ACK,
            SocketOption::NETLINK_EXT_ACK,
            SocketOption::NETLINK_STRICT_CHECK,
        ] {
            socket.set(option, 1)?;
        }
        Ok(Self {
            socket,
            sequence: Cell::new(0),
        })
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        let number = self.sequence.get().wrapping_add(1);
        self.sequence.set(number);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = number;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes)?;
        Ok(number)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
        let length = self.socket.receive(buffer)?;
        messages(&buffer[..length])
    }

    /// Makes a change. `flags`: `NLM_F_*` beside those of every request.
    pub(crate) fn change(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, flags | NLM_F_ACK).map(drop)
    }

    /// Asks for one object.
    pub(crate) fn get(&self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let answer = self.request(message, 0)?;
        answer.ok_or_else(|| malformed("the kernel did not answer"))
    }

    fn request(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        let number = self.send(message, flags)?;
        let mut buffer = vec![0; ANSWER_SIZE];
        loop {
            for answer in self.receive(&mut buffer)? {
                let (header, payload) = answer.into_parts();
                if header.sequence_number != number {
                    continue;
                }
                match payload {
                    NetlinkPayload::Error(message) => {
                        let has_explanation = header.flags & NLM_F_ACK_TLVS != 0;
                        return failure(&message, has_explanation).map_or(Ok(None), Err);
                    }
                    NetlinkPayload::InnerMessage(answer) => return Ok(Some(answer)),
                    _ => return Ok(None),
                }
            }
        }
    }

    /// Asks for all objects of a kind.
    pub(crate) fn list(
        &self,
        message: &RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(all) = self.list_once(message.clone())? {
                return Ok(all);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EINTR))
    }

    /// `None`: the objects changed meanwhile.
    fn list_once(
        &self,
        message: RouteNetlinkMessage,
    ) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        let number = self.send(message, NLM_F_DUMP)?;
        let mut buffer = vec![0; BUFFER_SIZE];
        let (mut all, mut is_whole) = (Vec::new(), true);
        loop {
            for part in self.receive(&mut buffer)? {
                let (header, payload) = part.into_parts();
                if header.sequence_number != number {
                    continue;
                }
                is_whole &= header.flags & NLM_F_DUMP_INTR == 0;
                match payload {
                    NetlinkPayload::InnerMessage(object) => all.push(object),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(io::Error::from_raw_os_error(done.code.wrapping_neg()));
                    }
                    NetlinkPayload::Done(_) => return Ok(is_whole.then_some(all)),
                    NetlinkPayload::Error(message) => {
                        let has_explanation = header.flags & NLM_F_ACK_TLVS != 0;
                        return failure(&message, has_explanation).map_or(Ok(Some(all)), Err);
                    }
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_sys::errno;
    use std::num::NonZeroI32;

    fn message(code: i32, explanation: &[u8]) -> ErrorMessage {
        let mut message = ErrorMessage::default();
        message.code = NonZeroI32::new(code);
        message.header = vec![0; HEADER_SIZE];
        let length = explanation.len() as u16 + 4;
        message.header.extend(length.to_ne_bytes());
        message.header.extend(EXPLANATION.to_ne_bytes());
        message.header.extend(explanation);
        message
    }

    #[test]
    fn errors_have_the_kernels_explanation() {
        let refused = message(-libc::EINVAL, b"Invalid prefix length\0");
        let error = describe(failure(&refused, true).unwrap(), format_args!("eth0"));
        assert_eq!(
            error.to_string(),
            "eth0: Invalid argument (os error 22): Invalid prefix length"
        );
        assert_eq!(errno(&error), Some(libc::EINVAL));
        let plain = failure(&refused, false).unwrap();
        assert_eq!(plain.raw_os_error(), Some(libc::EINVAL));
        assert!(failure(&message(0, b""), true).is_none());
    }

    #[test]
    fn malformed_messages_are_errors() {
        assert!(messages(&[1, 2, 3]).is_err());
        assert!(messages(&[0xff; 40]).is_err());
        assert!(messages(&[]).unwrap().is_empty());
    }
}
