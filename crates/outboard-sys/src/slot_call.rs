// SPDX-License-Identifier: GPL-2.0-only
//! System calls that another process asks for by its slot.
//!
//! The kernel gets no number of the client as an address: each pointer is built here, from the
//! address of the slot's data and an offset that was checked, or leads to a copy on this stack.

use crate::{ffi, Instance};
use libc::{c_long, iovec, msghdr};
use outboard_protocol::message::{Message, Piece, BYTES as MESSAGE_BYTES};
use outboard_protocol::reason::Reason;
use outboard_protocol::{check, CallRequest, Checked, Data, Form, Refusal, SlotSpan};
use outboard_slot::ServerSlot;
use std::ptr::{null, null_mut};

/// Bytes of a page: the kernel reads so many where mount options may be.
const PAGE: usize = 4096;

/// A set of signals with its size, as pselect6(2) takes them.
#[repr(C)]
struct SignalSet {
    set: *const u64,
    size: usize,
}

/// The memory of a call besides the slot, to which arguments lead.
struct Copies {
    length: u32,
    options: Option<Box<[u8; PAGE]>>,
    signals: u64,
    signal_set: SignalSet,
    piece: iovec,
    header: msghdr,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            length: 0,
            options: None,
            signals: 0,
            signal_set: SignalSet {
                set: null(),
                size: size_of::<u64>(),
            },
            piece: iovec {
                iov_base: null_mut(),
                iov_len: 0,
            },
            // SAFETY: all-zero is valid for the structure.
            header: unsafe { std::mem::zeroed() },
        }
    }
}

/// The arguments of a call for the kernel.
struct SlotCall<'a> {
    slot: &'a ServerSlot,
    arguments: [usize; 6],
    copies: Copies,
    /// The parts of a message that were looked at already.
    parts: usize,
}

impl SlotCall<'_> {
    fn address(&self, span: &SlotSpan) -> *mut u8 {
        self.slot.address().wrapping_add(span.offset as usize)
    }

    /// The part of a message: the name, the contents, the control data.
    fn add_part(&mut self, span: &SlotSpan) {
        let length = span.length as usize;
        let address = match span.offset {
            0 => null_mut(),
            _ => self.address(span),
        };
        let header = &mut self.copies.header;
        match self.parts {
            0 => {
                header.msg_name = address.cast();
                header.msg_namelen = span.length as u32;
            }
            1 => {
                let iov_base = address.cast();
                self.copies.piece = iovec {
                    iov_base,
                    iov_len: length,
                };
                header.msg_iov = &raw mut self.copies.piece;
                header.msg_iovlen = 1;
            }
            _ => {
                header.msg_control = address.cast();
                header.msg_controllen = length as _;
            }
        }
        self.parts += 1;
    }

    /// Copies a text. Behind its end there are zeros.
    fn copy_options(&mut self, span: &SlotSpan) {
        let options = self.copies.options.insert(Box::new([0; PAGE]));
        let length = (span.length as usize).min(PAGE - 1);
        self.slot.read(span.offset, &mut options[..length]);
        let end = options.iter().position(|&byte| byte == 0);
        options[end.unwrap_or(PAGE - 1)..].fill(0);
        self.arguments[span.argument] = options.as_ptr() as usize;
    }

    fn copy_signals(&mut self, span: &SlotSpan) {
        let mut bytes = [0; 8];
        self.slot.read(span.offset, &mut bytes);
        self.copies.signals = u64::from_ne_bytes(bytes);
        self.copies.signal_set.set = &raw const self.copies.signals;
    }

    /// Puts the pointer of a span in its place. `length`: of [`Checked::length`].
    fn add(&mut self, span: &SlotSpan, length: u32) {
        let is_part = span.form == Form::Slot && !self.copies.header.msg_iov.is_null();
        if is_part {
            return self.add_part(span);
        }
        self.arguments[span.argument] = match span.form {
            Form::Slot => self.address(span) as usize,
            Form::Length => {
                self.copies.length = length;
                &raw mut self.copies.length as usize
            }
            Form::Options => return self.copy_options(span),
            Form::SignalSet => {
                self.copy_signals(span);
                &raw const self.copies.signal_set as usize
            }
            Form::Piece => {
                let (iov_base, iov_len) = (self.address(span).cast(), span.length as usize);
                self.copies.piece = iovec { iov_base, iov_len };
                self.arguments[span.argument + 1] = 1;
                &raw const self.copies.piece as usize
            }
            Form::Message => {
                // Its three parts follow.
                self.copies.header.msg_iov = &raw mut self.copies.piece;
                &raw mut self.copies.header as usize
            }
        };
    }

    /// Brings back what the kernel wrote to copies.
    fn finish(&self, checked: &Checked) {
        for span in checked.spans() {
            match span.form {
                Form::Length => {
                    let bytes = self.copies.length.to_ne_bytes();
                    self.slot.write(span.offset as usize, &bytes);
                }
                Form::Message => self.return_header(span),
                _ => {}
            }
        }
    }

    /// The lengths of the parts, and the flags, of a message that was received.
    fn return_header(&self, span: &SlotSpan) {
        let mut bytes = [0; MESSAGE_BYTES as usize];
        self.slot.read(span.offset, &mut bytes);
        let given = Message::parse(&bytes);
        let header = &self.copies.header;
        let changed = |piece: Piece, length| Piece { length, ..piece };
        let message = Message {
            name: changed(given.name, header.msg_namelen),
            control: changed(given.control, header.msg_controllen as u32),
            flags: header.msg_flags as u32,
            ..given
        };
        self.slot.write(span.offset as usize, &message.bytes());
    }
}

/// The error for a request that is not made.
fn error_of(refusal: Refusal) -> i32 {
    match refusal {
        Refusal::Unknown | Refusal::Call(Reason::Machine) => libc::ENOSYS,
        Refusal::Call(_) => libc::EOPNOTSUPP,
        Refusal::Arguments => libc::EINVAL,
        Refusal::Outside => libc::EFAULT,
    }
}

impl Instance {
    /// Makes the call that a client asks for, as the calling thread's task. Returns the result, as
    /// the kernel has it: -4095 to -1 is an error. A request that was not fit is none: `EOPNOTSUPP`
    /// and `ENOSYS` for calls that do not travel, `EINVAL` and `EFAULT` for arguments. Blocks as
    /// the call does.
    pub fn slot_call(&self, request: &CallRequest, slot: &ServerSlot) -> i64 {
        let checked = match check(request, slot) {
            Ok(checked) => checked,
            Err(refusal) => return -i64::from(error_of(refusal)),
        };
        let mut call = SlotCall {
            slot,
            arguments: request.arguments.map(|argument| argument as usize),
            copies: Copies::default(),
            parts: 0,
        };
        for span in checked.spans() {
            call.add(span, checked.length);
        }
        let a = call.arguments;
        let number = request.number as c_long;
        // SAFETY: the handle is good. The table says of each argument whether it is an address;
        // those that are lead to the slot, behind which nothing is mapped, or to `call.copies`,
        // which outlives the call. A call that keeps an address for later is not in the table.
        let result =
            unsafe { ffi::ob_syscall_on(self.raw(), number, a[0], a[1], a[2], a[3], a[4], a[5]) };
        call.finish(&checked);
        result
    }
}
