// SPDX-License-Identifier: MIT
//! Checks a request of a client, which may say anything, and change its slot at any time.
//!
//! | what the kernel gets | is safe, since |
//! |---|---|
//! | a number | it is no address in any call of the table |
//! | an address in the slot | the bytes lie in the data, and [`GUARD`] is behind them |
//! | a copy | the client cannot change it, and it was checked |
//!
//! A length that the client has in its slot is read once, and the kernel gets that value.

use crate::argument::{Argument, Flow, Size};
use crate::choice;
use crate::message::{Message, BYTES as MESSAGE_BYTES};
use crate::reason::Reason;
use crate::row::Way;
use crate::table;

/// The most spans of a call: six arguments, and two more parts of a message.
pub const SPANS_MOST: usize = 8;

/// So many bytes behind the data of a slot must not be mapped. Strings and structures that contain
/// their size can become longer after the check, but never by more.
pub const GUARD: u64 = 1 << 20;

/// The most bytes of mount options, with the zero byte.
const OPTIONS_MOST: u32 = 4096;

/// A call as the client asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The number on x86-64.
    pub number: u64,
    /// Numbers, and offsets in the slot's data.
    pub arguments: [u64; 6],
}

/// The data of a slot. The client may change them between two looks.
pub trait Data {
    /// How many bytes there are.
    fn size(&self) -> u64;
    /// Copies bytes from an offset. They lie in the data.
    fn read(&self, offset: u64, bytes: &mut [u8]);
}

/// What the kernel gets in the place of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The address in the slot.
    Slot,
    /// That of a copy of four bytes, whose value is [`Checked::length`]. What the kernel writes
    /// there goes back.
    Length,
    /// That of a copy of the text. It must be a text: some file systems take structures with
    /// addresses there.
    Options,
    /// That of a pair: an address of a copy of the set, and its size.
    SignalSet,
    /// That of one `iovec` with the address in the slot. The next argument becomes 1.
    Piece,
    /// That of a `msghdr`, whose parts are the next three spans: name, contents, control data.
    Message,
}

/// Bytes that the kernel reads or writes for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSpan {
    /// The index of the argument.
    pub argument: usize,
    /// Where they begin, in the slot's data. 0: the pointer is NULL.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
    /// Which way they go.
    pub flow: Flow,
    /// What the kernel gets.
    pub form: Form,
}

/// A request that may be made.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    spans: [Option<SlotSpan>; SPANS_MOST],
    count: usize,
    /// The value of the argument that is an [`Argument::Length`].
    pub length: u32,
}

/// Why a request is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Linux has no such call.
    Unknown,
    /// The call does not travel.
    Call(Reason),
    /// The call travels, but not with these: a command or an option that no table has, a flag, or a
    /// pointer where only NULL may be.
    Arguments,
    /// Something lies outside of the slot.
    Outside,
}

impl Checked {
    /// What the pointers lead to, in the order of the arguments.
    pub fn spans(&self) -> impl Iterator<Item = &SlotSpan> {
        self.spans[..self.count].iter().flatten()
    }

    fn push(&mut self, span: SlotSpan) {
        self.spans[self.count] = Some(span);
        self.count += 1;
    }
}

/// The check of one request.
struct Check<'a, D> {
    data: &'a D,
    given: [u64; 6],
    checked: Checked,
}

impl<D: Data> Check<'_, D> {
    /// Whether bytes lie in the data. NULL leads to none.
    fn lies_inside(&self, offset: u64, length: u64) -> Result<(), Refusal> {
        match offset.checked_add(length) {
            Some(end) if end <= self.data.size() => Ok(()),
            _ => Err(Refusal::Outside),
        }
    }

    fn number_at(&self, offset: u64) -> Result<u32, Refusal> {
        self.lies_inside(offset, 4)?;
        let mut bytes = [0; 4];
        self.data.read(offset, &mut bytes);
        Ok(u32::from_ne_bytes(bytes))
    }

    /// Reads the length, of which a call has one at most, before any argument needs it.
    fn read_length(&mut self, arguments: &[Argument]) -> Result<(), Refusal> {
        let place = arguments
            .iter()
            .position(|argument| *argument == Argument::Length);
        let offset = place.map_or(0, |index| self.given[index]);
        if offset != 0 {
            self.checked.length = self.number_at(offset)?;
        }
        Ok(())
    }

    fn count(&self, argument: usize) -> u64 {
        self.given[argument]
    }

    fn length_of(&self, offset: u64, size: Size) -> Result<u64, Refusal> {
        let length = match size {
            Size::Fixed(bytes) => Some(bytes.into()),
            Size::Count {
                argument,
                unit,
                before,
            } => self
                .count(argument)
                .checked_mul(unit.into())
                .and_then(|items| items.checked_add(before.into())),
            Size::Bits { argument } => self.count(argument).div_ceil(64).checked_mul(8),
            Size::Pointed { .. } => Some(self.checked.length.into()),
            Size::ByVersion { argument, .. } => {
                let version = match self.given[argument] {
                    0 => 0,
                    offset => self.number_at(offset)?,
                };
                Some(size.of_version(version).into())
            }
            Size::Leading { more, most } => {
                let own = u64::from(self.number_at(offset)?);
                Some((own + u64::from(more)).min(most.into()))
            }
        };
        length.ok_or(Refusal::Outside)
    }

    fn push(
        &mut self,
        argument: usize,
        length: u64,
        flow: Flow,
        form: Form,
    ) -> Result<(), Refusal> {
        let offset = self.given[argument];
        if offset != 0 {
            self.lies_inside(offset, length)?;
            self.checked.push(SlotSpan {
                argument,
                offset,
                length,
                flow,
                form,
            });
        }
        Ok(())
    }

    /// A string may end anywhere behind its first byte.
    fn push_text(&mut self, index: usize, most: u32, form: Form) -> Result<(), Refusal> {
        let room = self.data.size().saturating_sub(self.given[index]);
        let length = room.min(most.into()).max(1);
        self.push(index, length, Flow::ToKernel, form)
    }

    fn push_message(&mut self, index: usize, flow: Flow) -> Result<(), Refusal> {
        let offset = self.given[index];
        self.push(index, MESSAGE_BYTES, Flow::Both, Form::Message)?;
        if offset == 0 {
            return Ok(());
        }
        let mut bytes = [0; MESSAGE_BYTES as usize];
        self.data.read(offset, &mut bytes);
        let message = Message::parse(&bytes);
        for part in [message.name, message.contents, message.control] {
            let (offset, length) = match part.offset {
                0 => (0, 0),
                offset => (offset.into(), part.length.into()),
            };
            self.lies_inside(offset, length)?;
            self.checked.push(SlotSpan {
                argument: index,
                offset,
                length,
                flow,
                form: Form::Slot,
            });
        }
        Ok(())
    }

    fn argument(&mut self, index: usize, argument: Argument) -> Result<(), Refusal> {
        match argument {
            Argument::Number => Ok(()),
            Argument::Flags { refused } if self.given[index] & refused == 0 => Ok(()),
            Argument::Null if self.given[index] == 0 => Ok(()),
            Argument::Flags { .. } | Argument::Null | Argument::Chosen => Err(Refusal::Arguments),
            Argument::Text { most } => self.push_text(index, most, Form::Slot),
            Argument::Options => self.push_text(index, OPTIONS_MOST, Form::Options),
            Argument::Bytes { flow, size } => {
                let length = match self.given[index] {
                    0 => 0,
                    offset => self.length_of(offset, size)?,
                };
                self.push(index, length, flow, Form::Slot)
            }
            Argument::Length => self.push(index, 4, Flow::Both, Form::Length),
            Argument::Pieces { flow } => self.push(index, self.count(index + 1), flow, Form::Piece),
            Argument::Message { flow } => self.push_message(index, flow),
            Argument::SignalSet => self.push(index, 8, Flow::ToKernel, Form::SignalSet),
        }
    }
}

/// Checks a request against the table.
///
/// # Errors
///
/// The [`Refusal`]: nothing may be called then.
pub fn check(request: &CallRequest, data: &impl Data) -> Result<Checked, Refusal> {
    let call = table::find(request.number).ok_or(Refusal::Unknown)?;
    let chosen;
    let arguments = match call.way {
        Way::Refused(reason) => return Err(Refusal::Call(reason)),
        Way::Arguments(all) if all.contains(&Argument::Chosen) => {
            let found = choice::arguments(call, all, &request.arguments);
            chosen = found.ok_or(Refusal::Arguments)?;
            &chosen
        }
        Way::Arguments(all) => all,
    };
    let mut check = Check {
        data,
        given: request.arguments,
        checked: Checked {
            spans: [None; SPANS_MOST],
            count: 0,
            length: 0,
        },
    };
    check.read_length(arguments)?;
    for (index, &argument) in arguments.iter().enumerate() {
        check.argument(index, argument)?;
    }
    Ok(check.checked)
}

#[cfg(test)]
mod tests;
