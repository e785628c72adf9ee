// SPDX-License-Identifier: GPL-2.0-only
//! Another size for the disk in a VHD image. Nobody else has the image open.

use super::{damaged, footer_place, source, write_zeros, wrong, LARGEST};
use outboard::Storage;
use outboard_image::vhd::{self, Dynamic, FREE};
use outboard_image::Source;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Gives the disk another size, which is then on stable storage. Data beyond a smaller size is
/// lost.
pub fn set_size(file: &File, size: u64) -> io::Result<()> {
    let source = source(file)?;
    let layout = vhd::read(&source).map_err(wrong)?;
    let footer = vhd::footer_of(&source).map(|footer| vhd::resized(footer, size));
    let footer = footer.ok_or_else(|| damaged("it has no footer"))?;
    if size > LARGEST {
        return Err(io::Error::other("a vhd image has at most 2040 GiB"));
    }
    match layout.dynamic {
        None => set_fixed_size(file, layout.size, size, &footer)?,
        Some(dynamic) => {
            if size < layout.size {
                drop_rest(file, size, layout.size)?;
            }
            set_dynamic_size(file, &dynamic, size, &footer)?;
        }
    }
    file.sync_all()
}

fn set_fixed_size(file: &File, old: u64, new: u64, footer: &[u8]) -> io::Result<()> {
    if new > old {
        file.set_len(new)?;
        file.write_all_at(footer, new)?;
        file.sync_all()?;
        return write_zeros(file, old, vhd::FOOTER);
    }
    file.write_all_at(footer, new)?;
    file.set_len(new + vhd::FOOTER)
}

/// Makes the end of a disk zero, so that it is zero when the disk grows again.
fn drop_rest(file: &File, new: u64, old: u64) -> io::Result<()> {
    let disk = super::Vhd::open(file)?;
    disk.write_zeroes(new, old - new)?;
    disk.flush()
}

fn set_dynamic_size(file: &File, old: &Dynamic, size: u64, footer: &[u8]) -> io::Result<()> {
    let source = source(file)?;
    let mut blocks = vhd::read_blocks(&source, old).map_err(wrong)?;
    let count = size.div_ceil(u64::from(old.block_size)) as usize;
    let mut end = blocks.end.max(footer_place(source.size()));
    if count > blocks.starts.len() {
        // The table has no room for more entries where it is.
        blocks.starts.resize(count, FREE);
        let new = Dynamic {
            table: end,
            blocks: count as u32,
            ..*old
        };
        let mut table: Vec<u8> = Vec::with_capacity(new.table_size() as usize);
        table.extend(blocks.starts.iter().flat_map(|start| start.to_be_bytes()));
        table.resize(new.table_size() as usize, 0xff);
        end += new.table_size();
        file.write_all_at(footer, end)?;
        file.write_all_at(&table, new.table)?;
        file.sync_all()?;
        file.write_all_at(&vhd::header(&new), new.header)?;
    }
    file.write_all_at(footer, end)?;
    file.write_all_at(footer, 0)
}

#[cfg(test)]
mod tests {
    use super::super::{check, create, Vhd, BLOCK_SIZE};
    use super::*;
    use std::io::{IoSlice, IoSliceMut};

    const BLOCK: u64 = BLOCK_SIZE as u64;

    fn fill(file: &File, offset: u64, length: usize) {
        let disk = Vhd::open(file).unwrap();
        let bytes = vec![7; length];
        disk.write_at(vec![IoSlice::new(&bytes)], offset).unwrap();
        disk.flush().unwrap();
    }

    fn read(file: &File, offset: u64) -> [u8; 512] {
        let mut bytes = [1; 512];
        let disk = Vhd::open(file).unwrap();
        disk.read_at(vec![IoSliceMut::new(&mut bytes)], offset)
            .unwrap();
        bytes
    }

    #[test]
    fn dynamic_disks_grow_and_shrink() {
        let file = tempfile::tempfile().unwrap();
        create(&file, 2 * BLOCK, [1; 16]).unwrap();
        fill(&file, 0, 2 * BLOCK as usize);
        for size in [200 * BLOCK, 201 * BLOCK, BLOCK + 512, 3 * BLOCK] {
            set_size(&file, size).unwrap();
            assert_eq!(Vhd::open(&file).unwrap().size(), size);
            assert!(!check(&file).unwrap());
            assert_eq!(read(&file, BLOCK), [7; 512]);
        }
        assert_eq!(read(&file, BLOCK + 512), [0; 512], "it was cut off before");
        fill(&file, 3 * BLOCK - 512, 512);
        assert_eq!(read(&file, 3 * BLOCK - 512), [7; 512]);
        assert!(set_size(&file, LARGEST + 512).is_err());
    }

    #[test]
    fn fixed_disks_grow_and_shrink() {
        let file = tempfile::tempfile().unwrap();
        let layout = vhd::VhdLayout {
            size: 4096,
            dynamic: None,
        };
        file.write_all_at(&vhd::footer(&layout, [1; 16]), 4096)
            .unwrap();
        fill(&file, 0, 4096);
        for size in [8192, 2048, 4096] {
            set_size(&file, size).unwrap();
            assert_eq!(Vhd::open(&file).unwrap().size(), size);
            assert!(vhd::is_fixed(&source(&file).unwrap()));
            assert_eq!(read(&file, 1536), [7; 512]);
        }
        assert_eq!(read(&file, 2048), [0; 512], "it was cut off before");
    }
}
