// SPDX-License-Identifier: MIT
//! One request: the program's bytes go into the slot's data, and those that the kernel wrote go
//! back.
//!
//! | what the kernel writes | what goes back to the program |
//! |---|---|
//! | as many bytes as the result says | so many, at most those for which there is room |
//! | a value with its length beside it | the length; on success, the bytes that both lengths have |
//! | anything else | all of it |
//!
//! In the last two cases the program's own bytes travel to the server first: those that the kernel
//! does not write stay as they are.

use super::buffer::ProgramBuffer;
use super::header::MessageHeader;
use super::larger::{counts_its_result, larger, Larger};
use super::memory::{word, CallEnd, Carrier, ProgramMemory};
use outboard_protocol::argument::{Argument, Flow, Size};
use outboard_protocol::message::{Message, Piece, BYTES as MESSAGE_BYTES};
use outboard_protocol::CallRequest;

/// Offset 0 is NULL, so the first bytes lie behind it.
const FIRST: u64 = 16;
const ALIGNMENT: u64 = 16;
/// From this length on, bytes begin on a page: direct input and output need that.
const LONG: u64 = 512;
const PAGE: u64 = 4096;
/// `sched_setattr(2)` takes a size of 0 for the first version of its structure.
const SCHED_SETATTR: u32 = 314;
const FIRST_SCHEDULING: u64 = 48;
/// The most bytes of mount options.
const OPTIONS_MOST: u32 = 4095;

/// A call, and how its arguments travel.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramCall<'a> {
    pub(super) number: u32,
    pub(super) arguments: &'a [Argument],
    /// As the program gave them.
    pub(super) given: [u64; 6],
}

/// The part of the call's bytes that travels with this request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The argument that leads to the bytes.
    pub(super) argument: usize,
    /// So many went before.
    pub(super) skip: u64,
    /// No more than so many.
    pub(super) most: u64,
}

impl Extent {
    /// All bytes of the call travel.
    pub(super) const ALL: Self = Self::all_of(usize::MAX);

    /// All bytes of that argument travel.
    pub(super) const fn all_of(argument: usize) -> Self {
        Self {
            argument,
            skip: 0,
            most: u64::MAX,
        }
    }
}

/// Copies to make when the request is done.
#[derive(Clone, Copy, Debug)]
enum Return {
    /// All bytes.
    All {
        address: u64,
        offset: u64,
        length: u64,
    },
    /// As many items as the result says.
    Counted {
        buffer: ProgramBuffer,
        skip: u64,
        offset: u64,
        length: u64,
        unit: u64,
        before: u64,
    },
    /// As many bytes as the length at another offset says then.
    Pointed {
        address: u64,
        offset: u64,
        length: u64,
        length_offset: u64,
    },
    /// The parts of a message.
    Header {
        header: MessageHeader,
        offset: u64,
        message: Message,
    },
}

/// The most things that a request returns: one for each argument, and the contents of a message.
const RETURNS: usize = 7;

struct Exchange<'a, M, C> {
    memory: &'a mut M,
    carrier: &'a mut C,
    call: ProgramCall<'a>,
    extent: Extent,
    /// The request to the server.
    sent: [u64; 6],
    /// The first free byte of the data.
    free: u64,
    returns: [Option<Return>; RETURNS],
    count: usize,
    /// The kernel hears of fewer items than the program asked for.
    is_shorter: bool,
}

/// Makes one request. Returns the result as the kernel has it.
pub(super) fn exchange(
    memory: &mut impl ProgramMemory,
    carrier: &mut impl Carrier,
    call: ProgramCall,
    extent: Extent,
) -> Result<i64, CallEnd> {
    let mut sent = [0; 6];
    sent[..call.arguments.len()].copy_from_slice(&call.given[..call.arguments.len()]);
    let mut exchange = Exchange {
        memory,
        carrier,
        call,
        extent,
        sent,
        free: FIRST,
        returns: [None; RETURNS],
        count: 0,
        is_shorter: false,
    };
    exchange.lay_out()?;
    let request = CallRequest {
        number: call.number.into(),
        arguments: exchange.sent,
    };
    let result = exchange.carrier.call(&request).ok_or(CallEnd::Lost)?;
    exchange.finish(result);
    Ok(exchange.final_result(result))
}

/// Arguments that may have more bytes get their places later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Few bytes.
    Short,
    /// As many as the program likes.
    Long,
    /// The bytes that the call moves, which get the rest of the data.
    Moved,
}

impl<M: ProgramMemory, C: Carrier> Exchange<'_, M, C> {
    fn lay_out(&mut self) -> Result<(), CallEnd> {
        for turn in [Turn::Short, Turn::Long, Turn::Moved] {
            for (index, &argument) in self.call.arguments.iter().enumerate() {
                if self.turn(index, argument) == turn {
                    self.argument(index, argument)?;
                }
            }
        }
        Ok(())
    }

    fn turn(&self, index: usize, argument: Argument) -> Turn {
        match argument {
            _ if index == self.extent.argument => Turn::Moved,
            Argument::Bytes {
                size: Size::Count { .. } | Size::Pointed { .. },
                ..
            } => Turn::Long,
            Argument::Pieces { .. } | Argument::Message { .. } => Turn::Long,
            _ => Turn::Short,
        }
    }

    fn argument(&mut self, index: usize, argument: Argument) -> Result<(), CallEnd> {
        let address = self.call.given[index];
        if address == 0 && argument.is_pointer() && !matches!(argument, Argument::Pieces { .. }) {
            return Ok(());
        }
        match argument {
            Argument::Number => {}
            Argument::Flags { refused } if address & refused == 0 => {}
            Argument::Flags { .. } | Argument::Null | Argument::Chosen => {
                return Err(CallEnd::Refused(libc::EINVAL));
            }
            Argument::Text { most } => self.text(index, most)?,
            Argument::Options => self.text(index, OPTIONS_MOST)?,
            Argument::Length => self.bytes(index, 4)?,
            Argument::SignalSet => self.signal_set(index)?,
            Argument::Bytes { flow, size } => self.sized(index, flow, size)?,
            Argument::Pieces { flow } => self.pieces(index, flow)?,
            Argument::Message { flow } => self.message(index, flow)?,
        }
        Ok(())
    }

    /// Bytes that are left, from the next multiple of `alignment` on.
    fn room(&self, alignment: u64) -> u64 {
        let start = self.free.next_multiple_of(alignment);
        (self.carrier.size() as u64).saturating_sub(start)
    }

    /// Takes bytes of the data. `None`: there are not so many.
    fn take(&mut self, length: u64) -> Option<u64> {
        let is_page = length >= LONG && length <= self.room(PAGE);
        let alignment = if is_page { PAGE } else { ALIGNMENT };
        if length > self.room(alignment) {
            return None;
        }
        let offset = self.free.next_multiple_of(alignment);
        self.free = offset + length;
        Some(offset)
    }

    /// Takes bytes of the data for something that is never long, or fails as the table of the
    /// crate's documentation says.
    fn take_all(&mut self, length: u64) -> Result<u64, CallEnd> {
        self.take(length).ok_or_else(|| self.too_large())
    }

    fn too_large(&self) -> CallEnd {
        match larger(self.call.number) {
            Larger::Refused(error) => CallEnd::Refused(error),
            Larger::Shorter | Larger::ShorterOrTooBig => CallEnd::Refused(libc::E2BIG),
        }
    }

    fn push(&mut self, item: Return) {
        self.returns[self.count] = Some(item);
        self.count += 1;
    }

    /// A text, with a zero byte even if it has more bytes than the kernel looks at.
    fn text(&mut self, index: usize, most: u32) -> Result<(), CallEnd> {
        let address = self.call.given[index];
        let length = self.memory.text_length(address, most as usize);
        let offset = self.take_all(length as u64 + 1)?;
        let start = offset as usize;
        self.carrier
            .write(start, self.memory.bytes(address, length));
        self.carrier.write(start + length, &[0]);
        self.sent[index] = offset;
        Ok(())
    }

    /// Bytes that travel both ways, whole.
    fn bytes(&mut self, index: usize, length: u64) -> Result<(), CallEnd> {
        let address = self.call.given[index];
        let offset = self.send(address, length)?;
        self.sent[index] = offset;
        self.push(Return::All {
            address,
            offset,
            length,
        });
        Ok(())
    }

    /// Copies bytes of the program into the data.
    fn send(&mut self, address: u64, length: u64) -> Result<u64, CallEnd> {
        let offset = self.take_all(length)?;
        let bytes = self.memory.bytes(address, length as usize);
        self.carrier.write(offset as usize, bytes);
        Ok(offset)
    }

    /// The program gives a pointer to a set, and the size of the set.
    fn signal_set(&mut self, index: usize) -> Result<(), CallEnd> {
        let pair = self.memory.bytes(self.call.given[index], 16);
        let (set, size) = (
            super::memory::number(pair, 0),
            super::memory::number(pair, 8),
        );
        if set != 0 && size != 8 {
            return Err(CallEnd::Refused(libc::EINVAL));
        }
        self.sent[index] = match set {
            0 => 0,
            set => self.send(set, 8)?,
        };
        Ok(())
    }

    fn sized(&mut self, index: usize, flow: Flow, size: Size) -> Result<(), CallEnd> {
        let length = match size {
            Size::Fixed(bytes) => bytes.into(),
            Size::Bits { argument } => self.call.given[argument].div_ceil(64) * 8,
            Size::ByVersion { argument, .. } => self.by_version(argument, size),
            Size::Leading { more, most } => self.leading(index, more, most),
            Size::Pointed { argument } => return self.pointed(index, argument),
            Size::Count {
                argument,
                unit,
                before,
            } => return self.counted(index, flow, argument, unit.into(), before.into()),
        };
        if flow == Flow::ToKernel {
            self.sent[index] = self.send(self.call.given[index], length)?;
            return Ok(());
        }
        self.bytes(index, length)
    }

    /// The length of a structure whose version is in the header of another argument.
    fn by_version(&self, argument: usize, size: Size) -> u64 {
        let version = match self.call.given[argument] {
            0 => 0,
            address => word(self.memory.bytes(address, 4), 0),
        };
        size.of_version(version).into()
    }

    /// The length of a structure that begins with its size.
    fn leading(&self, index: usize, more: u32, most: u32) -> u64 {
        let own = word(self.memory.bytes(self.call.given[index], 4), 0);
        let length = u64::from(own) + u64::from(more);
        match (self.call.number, length) {
            (SCHED_SETATTR, 0) => FIRST_SCHEDULING,
            // The kernel reads the size, whatever it is.
            (_, length) => length.clamp(4, most.into()),
        }
    }

    /// A value whose length is behind another pointer, and has its place already.
    fn pointed(&mut self, index: usize, argument: usize) -> Result<(), CallEnd> {
        let length_offset = self.sent[argument];
        let mut length = 0;
        if length_offset != 0 {
            length = self.length_at(length_offset).into();
            if length > i32::MAX as u64 {
                return Err(CallEnd::Refused(libc::EINVAL));
            }
            // No address and no value is as long as a slot.
            length = length.min(self.room(PAGE));
            let bytes = (length as u32).to_ne_bytes();
            self.carrier.write(length_offset as usize, &bytes);
        }
        let address = self.call.given[index];
        let offset = self.send(address, length)?;
        self.sent[index] = offset;
        self.push(Return::Pointed {
            address,
            offset,
            length,
            length_offset,
        });
        Ok(())
    }

    fn length_at(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.carrier.read(offset as usize, &mut bytes);
        u32::from_ne_bytes(bytes)
    }

    /// Items whose number is an argument.
    fn counted(
        &mut self,
        index: usize,
        flow: Flow,
        argument: usize,
        unit: u64,
        before: u64,
    ) -> Result<(), CallEnd> {
        let items = self.call.given[argument];
        let bytes = items.saturating_mul(unit).saturating_add(before);
        let buffer = ProgramBuffer::at(self.call.given[index], bytes);
        let Extent { skip, most, .. } = self.extent_of(index);
        let wanted = bytes.saturating_sub(skip).min(most);
        let fits = if wanted <= self.room(ALIGNMENT) {
            wanted
        } else {
            self.shortened(unit, before)?
        };
        if fits != bytes {
            self.sent[argument] = fits.saturating_sub(before) / unit;
        }
        let offset = self.take_all(fits)?;
        self.sent[index] = offset;
        if flow == Flow::FromKernel && counts_its_result(self.call.number) {
            self.push(Return::Counted {
                buffer,
                skip,
                offset,
                length: fits,
                unit,
                before,
            });
            return Ok(());
        }
        buffer.gather(self.memory, self.carrier, (skip, fits), offset);
        if flow != Flow::ToKernel {
            self.push(Return::All {
                address: self.call.given[index],
                offset,
                length: fits,
            });
        }
        Ok(())
    }

    fn extent_of(&self, index: usize) -> Extent {
        if index == self.extent.argument {
            self.extent
        } else {
            Extent::ALL
        }
    }

    /// So many bytes of a longer list fit, if the call may have a shorter one.
    fn shortened(&mut self, unit: u64, before: u64) -> Result<u64, CallEnd> {
        let room = self.room(PAGE);
        if larger(self.call.number) == Larger::ShorterOrTooBig {
            self.is_shorter = true;
        } else if larger(self.call.number) != Larger::Shorter {
            return Err(self.too_large());
        }
        let items = room.saturating_sub(before) / unit;
        Ok(before + items * unit)
    }

    /// A list of `iovec`, which travels as one piece.
    fn pieces(&mut self, index: usize, flow: Flow) -> Result<(), CallEnd> {
        let (address, count) = (self.call.given[index], self.call.given[index + 1]);
        let buffer = ProgramBuffer::list(self.memory, address, count, libc::EINVAL)?;
        let (offset, length) = self.contents(buffer, flow)?;
        self.sent[index] = offset;
        self.sent[index + 1] = length;
        Ok(())
    }

    /// The bytes of a buffer that travel with this request: offset and length.
    fn contents(&mut self, buffer: ProgramBuffer, flow: Flow) -> Result<(u64, u64), CallEnd> {
        let skip = self.extent.skip;
        let length = buffer.length.saturating_sub(skip).min(self.extent.most);
        let offset = self.take_all(length)?;
        if flow == Flow::ToKernel {
            buffer.gather(self.memory, self.carrier, (skip, length), offset);
        } else {
            self.push(Return::Counted {
                buffer,
                skip,
                offset,
                length,
                unit: 1,
                before: 0,
            });
        }
        Ok((offset, length))
    }

    fn message(&mut self, index: usize, flow: Flow) -> Result<(), CallEnd> {
        let header = MessageHeader::read(self.memory, self.call.given[index])?;
        let offset = self.take_all(MESSAGE_BYTES)?;
        let mut message = Message {
            name: self.part(header.name, flow)?,
            ..Message::default()
        };
        // Control data, such as descriptors, go with the first bytes.
        if self.extent.skip == 0 {
            let length = header.control.length;
            if length > self.control_room() && flow == Flow::ToKernel {
                return Err(CallEnd::Refused(libc::ENOBUFS));
            }
            let control = header.control.limited(self.control_room());
            message.control = self.part(control, flow)?;
        }
        let (place, length) = self.contents(header.contents, flow)?;
        message.contents = piece(place, length);
        self.carrier.write(offset as usize, &message.bytes());
        self.sent[index] = offset;
        if flow != Flow::ToKernel {
            self.push(Return::Header {
                header,
                offset,
                message,
            });
        }
        Ok(())
    }

    /// A quarter of the slot is for control data.
    fn control_room(&self) -> u64 {
        self.carrier.size() as u64 / 4
    }

    /// The name or the control data of a message.
    fn part(&mut self, buffer: ProgramBuffer, flow: Flow) -> Result<Piece, CallEnd> {
        if buffer.is_null() {
            return Ok(Piece::default());
        }
        let offset = self.take_all(buffer.length)?;
        if flow == Flow::ToKernel {
            let range = (0, buffer.length);
            buffer.gather(self.memory, self.carrier, range, offset);
        }
        Ok(piece(offset, buffer.length))
    }

    fn finish(&mut self, result: i64) {
        for index in 0..self.count {
            if let Some(item) = self.returns[index] {
                self.give(item, result);
            }
        }
    }

    fn give(&mut self, item: Return, result: i64) {
        let positive = u64::try_from(result).ok();
        match item {
            Return::All {
                address,
                offset,
                length,
            } => self.copy_back(address, offset, length),
            Return::Counted {
                buffer,
                skip,
                offset,
                length,
                unit,
                before,
            } => {
                let Some(items) = positive else { return };
                let bytes = items.saturating_mul(unit).saturating_add(before);
                let range = (skip, bytes.min(length));
                buffer.scatter(self.memory, self.carrier, range, offset);
            }
            Return::Pointed {
                address,
                offset,
                length,
                length_offset,
            } => {
                if positive.is_some() && length_offset != 0 {
                    let returned = self.length_at(length_offset).into();
                    self.copy_back(address, offset, length.min(returned));
                }
            }
            Return::Header {
                header,
                offset,
                message,
            } => {
                if positive.is_some() {
                    self.give_header(&header, offset, message);
                }
            }
        }
    }

    /// An answer of the server counts only as far as it fits the request.
    fn give_header(&mut self, header: &MessageHeader, offset: u64, sent: Message) {
        let mut bytes = [0; MESSAGE_BYTES as usize];
        self.carrier.read(offset as usize, &mut bytes);
        let returned = Message::parse(&bytes);
        let control = returned.control.length.min(sent.control.length);
        for (buffer, place, length) in [
            (
                header.name,
                sent.name,
                returned.name.length.min(sent.name.length),
            ),
            (header.control, sent.control, control),
        ] {
            let range = (0, length.into());
            buffer.scatter(self.memory, self.carrier, range, place.offset.into());
        }
        let (name, flags) = (returned.name.length, returned.flags);
        header.update(self.memory, name, control.into(), flags);
    }

    fn copy_back(&mut self, address: u64, offset: u64, length: u64) {
        let bytes = self.memory.bytes_mut(address, length as usize);
        self.carrier.read(offset as usize, bytes);
    }

    fn final_result(&self, result: i64) -> i64 {
        if self.is_shorter && result == -i64::from(libc::ERANGE) {
            return -i64::from(libc::E2BIG);
        }
        result
    }
}

fn piece(offset: u64, length: u64) -> Piece {
    let short = |number| u32::try_from(number).expect("a slot has at most 16 MiB");
    Piece {
        offset: short(offset),
        length: short(length),
    }
}
