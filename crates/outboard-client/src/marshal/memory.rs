// SPDX-License-Identifier: MIT
//! The two memories between which marshalling copies: the program's, and the slot's data.

use outboard_protocol::CallRequest;

/// The memory of the program, by its addresses.
pub trait ProgramMemory {
    /// Bytes at an address, to be read.
    fn bytes(&self, address: u64, length: usize) -> &[u8];
    /// Bytes at an address, to be written.
    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8];
    /// The length of a text without its zero byte, but at most `most`. Nothing behind the zero byte
    /// is looked at.
    fn text_length(&self, address: u64, most: usize) -> usize;
}

/// How a request travels to the server: data that both see, and the request itself.
pub trait Carrier {
    /// Bytes of data.
    fn size(&self) -> usize;
    /// Copies bytes into the data, where they fit.
    fn write(&mut self, offset: usize, bytes: &[u8]);
    /// Copies bytes out of the data.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Makes a system call. Returns the result as the kernel has it. `None`: the server has gone.
    fn call(&mut self, request: &CallRequest) -> Option<i64>;
}

/// Why a call has no result of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It was not made, or only in part: an error number.
    Refused(i32),
    /// The server has gone.
    Lost,
}

/// A number of four bytes, in the processor's order.
pub(super) fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(four)
}

/// A number of eight bytes, in the processor's order.
pub(super) fn number(bytes: &[u8], offset: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(eight)
}
