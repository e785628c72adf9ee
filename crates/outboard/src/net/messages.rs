// SPDX-License-Identifier: GPL-2.0-only
//! Parts of netlink messages, for protocols that no crate has: attributes, and the message that
//! acknowledges a request.

use crate::invalid::invalid_data;
use outboard_sys::libc;
use std::io;

/// NLA_F_NESTED: the attribute has others.
const NESTED: u16 = 0x8000;

/// An attribute with its padding.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len() as u16;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute that has others.
pub(crate) fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

/// The result that a message reports. `None`: it is another message. An error: it is malformed.
pub(crate) fn acknowledgement(message: &[u8]) -> io::Result<Option<io::Result<()>>> {
    let kind = message.get(4..).and_then(|kind| kind.first_chunk());
    let kind = kind.map(|kind| i32::from(u16::from_ne_bytes(*kind)));
    if kind.is_some_and(|kind| kind != libc::NLMSG_ERROR) {
        return Ok(None);
    }
    let code = message.get(16..).and_then(|code| code.first_chunk());
    match (kind, code.map(|code| i32::from_ne_bytes(*code))) {
        (Some(_), Some(0)) => Ok(Some(Ok(()))),
        (Some(_), Some(code)) => {
            let error = io::Error::from_raw_os_error(code.wrapping_neg());
            Ok(Some(Err(error)))
        }
        _ => Err(invalid_data("the kernel's answer is malformed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_have_a_result() {
        let message = |kind: u16, code: i32| {
            let mut bytes = 20_u32.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert!(matches!(acknowledgement(&message(2, 0)), Ok(Some(Ok(())))));
        let failed = acknowledgement(&message(2, -libc::EPERM)).unwrap().unwrap();
        assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(acknowledgement(&message(16, 0)).unwrap().is_none());
        for length in [0, 5, 19] {
            assert!(
                acknowledgement(&message(2, 0)[..length]).is_err(),
                "{length}"
            );
        }
    }
}
