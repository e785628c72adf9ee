// SPDX-License-Identifier: MIT
//! sendmmsg(2) and recvmmsg(2): a message is a call of its own.

use super::memory::{number, CallEnd, ProgramMemory};
use std::time::{Duration, Instant};

/// Bytes of `struct mmsghdr`, and where the length of a message goes.
const BYTES: u64 = 64;
const LENGTH: u64 = 56;
/// `UIO_MAXIOV`.
const MOST: u64 = 1024;
const MSG_DONTWAIT: u64 = 0x40;
const MSG_WAITFORONE: u64 = 0x1_0000;

/// Makes the calls. `one` sends or receives the message at an address, with these flags. An error
/// behind the first message is that of the program's next call.
pub(super) fn several<M: ProgramMemory>(
    memory: &mut M,
    given: [u64; 6],
    mut one: impl FnMut(&mut M, u64, u64) -> Result<i64, CallEnd>,
) -> Result<i64, CallEnd> {
    let [_, list, count, mut flags, timeout, _] = given;
    let until = end(memory, timeout)?;
    let count = (count & u64::from(u32::MAX)).min(MOST);
    let mut done = 0;
    while done < count {
        let address = list + BYTES * done;
        let moved = one(memory, address, flags & !MSG_WAITFORONE)?;
        let Ok(length) = u32::try_from(moved) else {
            return Ok(if done > 0 { done as i64 } else { moved });
        };
        let place = memory.bytes_mut(address + LENGTH, 4);
        place.copy_from_slice(&length.to_ne_bytes());
        done += 1;
        if flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        if until.is_some_and(|until| is_over(memory, timeout, until)) {
            break;
        }
    }
    Ok(done as i64)
}

/// When no further message is waited for. `None`: never.
fn end(memory: &impl ProgramMemory, timeout: u64) -> Result<Option<Instant>, CallEnd> {
    if timeout == 0 {
        return Ok(None);
    }
    let bytes = memory.bytes(timeout, 16);
    let (seconds, nanoseconds) = (number(bytes, 0), number(bytes, 8));
    let is_right = i64::try_from(seconds).is_ok() && nanoseconds < 1_000_000_000;
    if !is_right {
        return Err(CallEnd::Refused(libc::EINVAL));
    }
    let time = Duration::new(seconds, nanoseconds as u32);
    Ok(Instant::now().checked_add(time))
}

/// Writes how much time is left.
fn is_over(memory: &mut impl ProgramMemory, timeout: u64, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let numbers = [left.as_secs(), left.subsec_nanos().into()];
    for (place, number) in memory
        .bytes_mut(timeout, 16)
        .chunks_exact_mut(8)
        .zip(numbers)
    {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    left.is_zero()
}
