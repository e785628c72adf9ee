// SPDX-License-Identifier: GPL-2.0-only
//! A system call that a client asks for: its number, six arguments, and the data of its slot. No
//! look at the data, and nothing that the kernel would get, lies outside.

use outboard_protocol::{check, CallRequest, Data, Form};

struct Slot<'a>(&'a [u8]);

impl Data for Slot<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        let start = offset as usize;
        bytes.copy_from_slice(&self.0[start..start + bytes.len()]);
    }
}

pub fn run(bytes: &[u8]) {
    let Some((numbers, data)) = bytes.split_at_checked(56) else {
        return;
    };
    let mut numbers = numbers
        .chunks_exact(8)
        .map(|eight| u64::from_le_bytes(eight.try_into().expect("they are eight")));
    let mut next = || numbers.next().expect("there are seven");
    let request = CallRequest {
        number: next(),
        arguments: std::array::from_fn(|_| next()),
    };
    let slot = Slot(data);
    let Ok(checked) = check(&request, &slot) else {
        return;
    };
    for span in checked.spans() {
        assert!(span.offset + span.length <= slot.size(), "{span:?}");
        assert!(span.argument < 6);
        let is_part = span.offset != request.arguments[span.argument];
        assert!(!is_part || span.form == Form::Slot, "{span:?}");
    }
}
