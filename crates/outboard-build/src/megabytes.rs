// SPDX-License-Identifier: GPL-2.0-only
//! Sizes in whole megabytes, as new images, partitions and volumes have them.

/// Bytes of a megabyte.
pub const MEGABYTE: u64 = 1 << 20;

/// Whole megabytes with room for this many bytes.
pub fn round_up(size: u64) -> u64 {
    size.div_ceil(MEGABYTE).saturating_mul(MEGABYTE)
}
