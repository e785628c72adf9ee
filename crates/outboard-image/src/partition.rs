// SPDX-License-Identifier: GPL-2.0-only
//! Partition tables: GPT, MBR with logical partitions, Apple's.
//!
//! Partitions have the numbers that Linux gives them, so that `IMAGE@N` means what /dev/sdaN means.
//! Entries beyond the end of the image are not trusted.

mod apple;
mod gpt;
mod layout;
mod mbr;
mod names;
mod table;

pub use layout::{guid_bytes, GptEntry, GptLayout};
pub use table::{Partition, Table, TableKind};

use crate::source::{watched, Source};
use std::io;

/// Reads the partition table, and finds the size of its sectors. `None`: there is none.
pub fn read_table(source: &(impl Source + ?Sized)) -> io::Result<Option<Table>> {
    watched(source, |source| find_table(source))
}

fn find_table(source: &(impl Source + ?Sized)) -> Option<Table> {
    let mut table = gpt::read(source)
        .or_else(|| mbr::read(source))
        .or_else(|| apple::read(source))?;
    for partition in &table.partitions {
        let end = partition.start.saturating_add(partition.size);
        if end > source.size() {
            table.warnings.push(format!(
                "partition {} ends at byte {end}, but the image has only {}",
                partition.number,
                source.size()
            ));
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk whose reads fail from an offset on.
    struct Failing(Vec<u8>, u64);

    impl Source for Failing {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            if offset + buffer.len() as u64 > self.1 {
                Err(io::Error::from_raw_os_error(5))
            } else {
                self.0.as_slice().read_at(buffer, offset)
            }
        }
    }

    #[test]
    fn a_failed_read_is_not_a_missing_table() {
        for readable in [0, 512, 1000] {
            let mut disk = vec![0; 8192];
            disk[450] = 0xee;
            disk[454] = 1;
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            let error = read_table(&Failing(disk, readable)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{readable}");
        }
        assert!(read_table(&Failing(vec![0; 8192], 512)).unwrap().is_none());
    }
}
