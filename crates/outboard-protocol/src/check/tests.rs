// SPDX-License-Identifier: MIT

use super::*;

const SIZE: u64 = 1 << 16;
const READ: u64 = 0;
const WRITE: u64 = 1;
const OPEN: u64 = 2;
const SELECT: u64 = 23;
const IOCTL: u64 = 16;
const WRITEV: u64 = 20;
const ACCEPT: u64 = 43;
const SENDTO: u64 = 44;
const SENDMSG: u64 = 46;
const MOUNT: u64 = 165;
const SCHED_SETATTR: u64 = 314;

/// The data of a slot; what is not written is 0.
#[derive(Default)]
struct Slot {
    written: Vec<(u64, Vec<u8>)>,
}

impl Slot {
    fn with(offset: u64, bytes: &[u8]) -> Self {
        let written = vec![(offset, bytes.to_vec())];
        Self { written }
    }
}

impl Data for Slot {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        assert!(offset + bytes.len() as u64 <= SIZE, "a read outside");
        bytes.fill(0);
        for (place, written) in &self.written {
            if *place == offset {
                bytes.copy_from_slice(&written[..bytes.len()]);
            }
        }
    }
}

fn checked(slot: &Slot, number: u64, given: &[u64]) -> Result<Checked, Refusal> {
    let mut arguments = [0; 6];
    arguments[..given.len()].copy_from_slice(given);
    check(&CallRequest { number, arguments }, slot)
}

/// Argument, offset, length and form of each span.
fn spans(slot: &Slot, number: u64, given: &[u64]) -> Vec<(usize, u64, u64, Form)> {
    let all = checked(slot, number, given).expect("the request is right");
    all.spans()
        .map(|span| (span.argument, span.offset, span.length, span.form))
        .collect()
}

fn refusal(slot: &Slot, number: u64, given: &[u64]) -> Option<Refusal> {
    checked(slot, number, given).err()
}

#[test]
fn bytes_lie_in_the_slot() {
    let slot = Slot::default();
    assert_eq!(
        spans(&slot, READ, &[3, 64, 100]),
        [(1, 64, 100, Form::Slot)]
    );
    assert_eq!(
        spans(&slot, WRITE, &[3, SIZE - 1, 1]),
        [(1, SIZE - 1, 1, Form::Slot)]
    );
    assert_eq!(spans(&slot, READ, &[3, 0, 100]), []);
    for (offset, length) in [(SIZE, 1), (64, SIZE), (u64::MAX, 2), (64, u64::MAX)] {
        assert_eq!(
            refusal(&slot, READ, &[3, offset, length]),
            Some(Refusal::Outside),
            "{offset} {length}"
        );
    }
}

#[test]
fn strings_begin_in_the_slot() {
    let slot = Slot::default();
    assert_eq!(spans(&slot, OPEN, &[64]), [(0, 64, 4096, Form::Slot)]);
    assert_eq!(
        spans(&slot, OPEN, &[SIZE - 5]),
        [(0, SIZE - 5, 5, Form::Slot)]
    );
    assert_eq!(refusal(&slot, OPEN, &[SIZE]), Some(Refusal::Outside));
    assert_eq!(refusal(&slot, OPEN, &[u64::MAX]), Some(Refusal::Outside));
}

#[test]
fn a_set_has_a_bit_for_each_descriptor() {
    let slot = Slot::default();
    assert_eq!(
        spans(&slot, SELECT, &[65, 64, 0, 128, 0]),
        [(1, 64, 16, Form::Slot), (3, 128, 16, Form::Slot)]
    );
    assert_eq!(
        refusal(&slot, SELECT, &[u64::MAX, 64]),
        Some(Refusal::Outside)
    );
}

#[test]
fn a_length_is_read_once() {
    let slot = Slot::with(32, &16u32.to_ne_bytes());
    let accepted = checked(&slot, ACCEPT, &[3, 64, 32]).unwrap();
    assert_eq!(accepted.length, 16);
    assert_eq!(
        spans(&slot, ACCEPT, &[3, 64, 32]),
        [(1, 64, 16, Form::Slot), (2, 32, 4, Form::Length)]
    );
    let slot = Slot::with(32, &u32::MAX.to_ne_bytes());
    assert_eq!(refusal(&slot, ACCEPT, &[3, 64, 32]), Some(Refusal::Outside));
    assert_eq!(
        refusal(&slot, ACCEPT, &[3, 64, SIZE - 3]),
        Some(Refusal::Outside)
    );
}

#[test]
fn a_structure_with_its_size_has_a_limit() {
    let slot = Slot::with(64, &48u32.to_ne_bytes());
    assert_eq!(
        spans(&slot, SCHED_SETATTR, &[0, 64, 0]),
        [(1, 64, 48, Form::Slot)]
    );
    let slot = Slot::with(64, &u32::MAX.to_ne_bytes());
    assert_eq!(
        spans(&slot, SCHED_SETATTR, &[0, 64, 0]),
        [(1, 64, 4096, Form::Slot)]
    );
}

#[test]
fn pieces_are_one_on_the_way() {
    assert_eq!(
        spans(&Slot::default(), WRITEV, &[3, 64, 10]),
        [(1, 64, 10, Form::Piece)]
    );
}

#[test]
fn all_parts_of_a_message_lie_in_the_slot() {
    let part = |offset, length| crate::message::Piece { offset, length };
    let mut message = Message {
        name: part(128, 16),
        contents: part(256, 1000),
        control: part(0, 5),
        flags: 0,
    };
    let slot = Slot::with(64, &message.bytes());
    assert_eq!(
        spans(&slot, SENDMSG, &[3, 64, 0]),
        [
            (1, 64, MESSAGE_BYTES, Form::Message),
            (1, 128, 16, Form::Slot),
            (1, 256, 1000, Form::Slot),
            (1, 0, 0, Form::Slot),
        ]
    );
    message.contents.length = u32::MAX;
    let slot = Slot::with(64, &message.bytes());
    assert_eq!(refusal(&slot, SENDMSG, &[3, 64]), Some(Refusal::Outside));
    assert_eq!(refusal(&slot, SENDMSG, &[3, SIZE]), Some(Refusal::Outside));
    assert_eq!(spans(&slot, SENDMSG, &[3, 0, 0]), []);
}

#[test]
fn commands_that_no_table_has_are_refused() {
    let slot = Slot::default();
    assert_eq!(
        spans(&slot, IOCTL, &[3, 0x541b, 64]),
        [(2, 64, 4, Form::Slot)]
    );
    // SIOCETHTOOL has an address in its structure; TCGETS is a command of 32 bits.
    for command in [0x8946, 0x1_0000_5401, u64::MAX] {
        let refused = refusal(&slot, IOCTL, &[3, command, 64]);
        assert_eq!(refused, Some(Refusal::Arguments), "{command:#x}");
    }
    // SO_ATTACH_FILTER, and iptables.
    for (level, option) in [(1, 26), (0, 64), (41, 64), (9999, 1)] {
        let refused = refusal(&slot, 54, &[3, level, option, 64, 4]);
        assert_eq!(refused, Some(Refusal::Arguments), "{level} {option}");
    }
    assert_eq!(
        spans(&slot, 54, &[3, 1, 7, 64, 4]),
        [(3, 64, 4, Form::Slot)]
    );
}

#[test]
fn options_of_a_mount_are_copied() {
    assert_eq!(
        spans(&Slot::default(), MOUNT, &[64, 128, 256, 0, 512]),
        [
            (0, 64, 4096, Form::Slot),
            (1, 128, 4096, Form::Slot),
            (2, 256, 256, Form::Slot),
            (4, 512, 4096, Form::Options),
        ]
    );
}

#[test]
fn keys_have_further_pointers() {
    // KEYCTL_SEARCH
    assert_eq!(
        spans(&Slot::default(), 250, &[10, 1, 64, 128, 0]),
        [(2, 64, 256, Form::Slot), (3, 128, 4096, Form::Slot)]
    );
    assert_eq!(
        refusal(&Slot::default(), 250, &[23, 1]),
        Some(Refusal::Arguments)
    );
}

#[test]
fn memory_itself_is_not_sent() {
    let slot = Slot::default();
    let with = |flags| refusal(&slot, SENDTO, &[3, 64, 10, flags, 0, 0]);
    assert_eq!(with(0), None);
    // MSG_ZEROCOPY
    assert_eq!(with(0x400_0000), Some(Refusal::Arguments));
}

#[test]
fn refused_calls_say_why() {
    let slot = Slot::default();
    assert_eq!(refusal(&slot, 9, &[]), Some(Refusal::Call(Reason::Memory)));
    assert_eq!(refusal(&slot, 500, &[]), Some(Refusal::Unknown));
    assert_eq!(refusal(&slot, u64::MAX, &[]), Some(Refusal::Unknown));
    // reboot(2) takes the text of a command.
    assert_eq!(
        refusal(&slot, 169, &[0, 0, 0, 64]),
        Some(Refusal::Arguments)
    );
}

#[test]
fn no_request_leads_outside() {
    let slot = Slot::with(64, &[0xff; 32]);
    let places = [0, 1, 64, SIZE - 1, SIZE, u64::MAX, 0x7fff_ffff_f000];
    for call in table::all() {
        for &first in &places {
            for &second in &places {
                let arguments = [first, second, first, second, first, second];
                let number = call.number.into();
                if let Ok(checked) = check(&CallRequest { number, arguments }, &slot) {
                    for span in checked.spans() {
                        assert!(span.offset + span.length <= SIZE, "{call:?} {span:?}");
                    }
                }
            }
        }
    }
}
