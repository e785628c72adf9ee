// SPDX-License-Identifier: GPL-2.0-only
//! The commands of the kernel's driver for NBD, by generic netlink (linux/nbd-netlink.h).

use super::export::NbdExport;
use crate::invalid::invalid_data;
use crate::net::Net;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla,
    NlasIterator, Parseable, ParseableParametrized, NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use outboard_sys::libc;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// Answers are short.
const ANSWER_SIZE: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
struct DriverMessage {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl GenlFamily for DriverMessage {
    fn family_name() -> &'static str {
        "nbd"
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for DriverMessage {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for DriverMessage {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes = NlasIterator::new(bytes).map(|attribute| DefaultNla::parse(&attribute?));
        Ok(Self {
            command: header.cmd,
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }
}

impl DriverMessage {
    /// The number that the driver has given a device.
    fn index(&self) -> Option<u32> {
        let mut attributes = self.attributes.iter();
        let index = attributes.find(|attribute| attribute.kind() == INDEX)?;
        let mut bytes = [0; 4];
        (index.value_len() == bytes.len()).then(|| {
            index.emit_value(&mut bytes);
            u32::from_ne_bytes(bytes)
        })
    }
}

/// An attribute that has another.
fn nested(kind: u16, part: &DefaultNla) -> DefaultNla {
    let mut bytes = vec![0; part.buffer_len()];
    part.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

fn request<F>(message: GenlMessage<F>) -> Vec<u8>
where
    F: GenlFamily + Emitable + Debug,
{
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Sends a request. Returns the answer before the acknowledgement; `None`: there is none.
fn ask<F>(net: &Net, message: GenlMessage<F>) -> io::Result<Option<F>>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Debug,
{
    let socket = net.socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC)?;
    socket.send(&request(message))?;
    let mut answer = None;
    let mut buffer = vec![0; ANSWER_SIZE];
    loop {
        let length = socket.receive(&mut buffer)?;
        let message = NetlinkMessage::<GenlMessage<F>>::deserialize(&buffer[..length])
            .map_err(|error| invalid_data(format!("the kernel's answer is malformed: {error}")))?;
        match message.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            NetlinkPayload::Error(_) => return Ok(answer),
            NetlinkPayload::InnerMessage(message) => answer = Some(message.payload),
            _ => {}
        }
    }
}

/// The number of the driver's family of messages.
fn family(net: &Net) -> io::Result<u16> {
    let name = GenlCtrlAttrs::FamilyName(DriverMessage::family_name().to_owned());
    let request = GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![name],
    };
    let answer = ask(net, GenlMessage::from_payload(request))?;
    let mut attributes = answer.into_iter().flat_map(|answer| answer.nlas);
    let number = attributes.find_map(|attribute| match attribute {
        GenlCtrlAttrs::FamilyId(number) => Some(number),
        _ => None,
    });
    number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

fn message(family: u16, command: u8, attributes: Vec<DefaultNla>) -> GenlMessage<DriverMessage> {
    let mut message = GenlMessage::from_payload(DriverMessage {
        command,
        attributes,
    });
    message.set_resolved_family_id(family);
    message
}

/// A connection of the kernel's driver. The driver disconnects when it is dropped.
pub(super) struct Connection {
    net: Net,
    family: u16,
    /// The number of the device.
    pub(super) index: u32,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let index = DefaultNla::new(INDEX, self.index.to_ne_bytes().to_vec());
        // A server that is gone is no error here: writers have learned of it.
        let _ = ask(&self.net, message(self.family, DISCONNECT, vec![index]));
    }
}

impl Connection {
    /// Gives the driver a socket whose server has agreed to transmit.
    pub(super) fn start(
        net: &Net,
        socket: i32,
        export: &NbdExport,
        limit: Duration,
    ) -> io::Result<Self> {
        let family = family(net)?;
        let number = |kind: u16, value: u64| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let socket = DefaultNla::new(SOCKET_FD, (socket as u32).to_ne_bytes().to_vec());
        let attributes = vec![
            number(SIZE_BYTES, export.size),
            number(BLOCK_SIZE_BYTES, export.sizes.least.into()),
            number(TIMEOUT, limit.as_secs().max(1)),
            number(SERVER_FLAGS, export.flags.into()),
            nested(SOCKETS, &nested(SOCKET_ITEM, &socket)),
        ];
        let answer = ask(net, message(family, CONNECT, attributes))?;
        let index = answer.and_then(|answer| answer.index());
        Ok(Self {
            net: net.clone(),
            family,
            index: index.ok_or_else(|| invalid_data("the kernel has not named the device"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<DriverMessage, DecodeError> {
        let message = NetlinkMessage::<GenlMessage<DriverMessage>>::deserialize(bytes)?;
        match message.payload {
            NetlinkPayload::InnerMessage(message) => Ok(message.payload),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_have_the_kernels_layout() {
        let index = DefaultNla::new(INDEX, 7_u32.to_ne_bytes().to_vec());
        let bytes = request(message(28, DISCONNECT, vec![index]));
        let mut expected = vec![28, 0, 0, 0, 28, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([2, 1, 0, 0, 8, 0, 1, 0, 7, 0, 0, 0]);
        assert_eq!(bytes, expected);
        assert_eq!(parse(&bytes).unwrap().index(), Some(7));
        let inner = DefaultNla::new(SOCKET_FD, vec![5, 0, 0, 0]);
        let outer = nested(SOCKETS, &nested(SOCKET_ITEM, &inner));
        let mut bytes = vec![0; outer.buffer_len()];
        outer.emit(&mut bytes);
        assert_eq!(
            bytes,
            [16, 0, 7, 0x80, 12, 0, 1, 0x80, 8, 0, 1, 0, 5, 0, 0, 0]
        );
    }

    #[test]
    fn answers_that_lack_a_part_are_errors() {
        let short = DefaultNla::new(INDEX, vec![7, 0]);
        let other = DefaultNla::new(TIMEOUT, vec![7, 0, 0, 0]);
        for attribute in [short, other] {
            let bytes = request(message(28, CONNECT, vec![attribute]));
            assert_eq!(parse(&bytes).unwrap().index(), None);
        }
        let index = DefaultNla::new(INDEX, vec![7, 0, 0, 0]);
        let whole = request(message(28, CONNECT, vec![index]));
        for length in [0, 15, 19, 23, 27] {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        let mut too_long = whole.clone();
        too_long[20] = 9;
        assert!(parse(&too_long).is_err());
    }
}
