// SPDX-License-Identifier: GPL-2.0-only
//! Apple partition maps.

use super::table::{Partition, Table, TableKind, MOST};
use crate::block::fetch;
use crate::source::Source;

pub(super) fn read(source: &(impl Source + ?Sized)) -> Option<Table> {
    let driver = fetch(source, 0, 512)?;
    let sector = u64::from(driver.be16(2));
    if !driver.has(0, b"ER") || !(512..=4096).contains(&sector) || !sector.is_power_of_two() {
        return None;
    }
    let mut table = Table::new(TableKind::Apple, None, sector);
    let mut count = 1;
    let mut number = 1;
    while number <= count {
        let Some(entry) = fetch(source, sector * u64::from(number), 512) else {
            break;
        };
        if !entry.has(0, b"PM") {
            break;
        }
        count = entry.be32(4).min(MOST as u32);
        table.partitions.push(Partition {
            number,
            start: u64::from(entry.be32(8)) * sector,
            size: u64::from(entry.be32(12)) * sector,
            type_id: entry.text(48, 32).unwrap_or_default(),
            type_name: None,
            name: entry.text(16, 32),
            uuid: None,
            extended: false,
        });
        number += 1;
    }
    (!table.partitions.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_until_the_count() {
        let mut image = vec![0u8; 10 * 512];
        image[..4].copy_from_slice(&[b'E', b'R', 2, 0]);
        for (number, start) in [(1usize, 1u32), (2, 4)] {
            let at = number * 512;
            image[at..at + 2].copy_from_slice(b"PM");
            image[at + 4..at + 8].copy_from_slice(&2u32.to_be_bytes());
            image[at + 8..at + 12].copy_from_slice(&start.to_be_bytes());
            image[at + 12..at + 16].copy_from_slice(&3u32.to_be_bytes());
            image[at + 48..at + 57].copy_from_slice(b"Apple_HFS");
        }
        let table = read(image.as_slice()).unwrap();
        assert_eq!(table.partitions.len(), 2);
        assert_eq!(table.partitions[1].start, 4 * 512);
        assert_eq!(table.partitions[1].type_id, "Apple_HFS");
    }
}
