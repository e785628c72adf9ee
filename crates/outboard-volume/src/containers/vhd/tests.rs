// SPDX-License-Identifier: GPL-2.0-only
//! VHD images that are written and read back.

use super::*;

const SIZE: u64 = 5 * BLOCK_SIZE as u64 + 4096;

fn image() -> File {
    let file = tempfile::tempfile().unwrap();
    create(&file, SIZE, [3; 16]).unwrap();
    file
}

fn read(disk: &Vhd, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![1; length];
    disk.read_at(vec![IoSliceMut::new(&mut bytes)], offset)
        .unwrap();
    bytes
}

fn write(disk: &Vhd, offset: u64, bytes: &[u8]) {
    disk.write_at(vec![IoSlice::new(bytes)], offset).unwrap();
}

#[test]
fn what_is_written_is_read_back() {
    let file = image();
    let border = u64::from(BLOCK_SIZE) * 3 - 1024;
    let disk = Vhd::open(&file).unwrap();
    write(&disk, border, &[7; 4096]);
    write(&disk, SIZE - 512, &[9; 512]);
    disk.flush().unwrap();
    for disk in [disk, Vhd::open(&file).unwrap()] {
        assert_eq!(disk.size(), SIZE);
        assert_eq!(read(&disk, border, 4096), [7; 4096]);
        assert_eq!(read(&disk, border - 512, 512), [0; 512]);
        assert_eq!(read(&disk, SIZE - 1024, 1024)[512..], [9; 512]);
    }
    assert!(!check(&file).unwrap());
    // Three blocks, tables and a footer.
    let stored = 3 * (u64::from(BLOCK_SIZE) + 512);
    assert!(file.metadata().unwrap().len() < stored + 8192);
}

#[test]
fn a_file_that_is_cut_while_it_is_open() {
    let file = image();
    write(&Vhd::open(&file).unwrap(), 0, &[7; 512]);
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 512]);
    write(&disk, 2 * u64::from(BLOCK_SIZE), &[8; 512]);
    let length = file.metadata().unwrap().len();
    // The end of the block is a hole, which was never written.
    let end = 3 * u64::from(BLOCK_SIZE) - 512;
    assert_eq!(read(&disk, end, 512), [0; 512]);
    file.set_len(length - vhd::FOOTER - 1024).unwrap();
    let failed = disk.read_at(vec![IoSliceMut::new(&mut [0; 512])], end);
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::EIO));
    // An image that was cut before has zeroes there, as its warning says.
    disk.flush().unwrap();
    let disk = Vhd::open(&file).unwrap();
    assert_eq!(read(&disk, end, 512), [0; 512]);
}

#[test]
fn the_file_knows_no_block_before_a_flush() {
    let file = image();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 512]);
    assert_eq!(read(&Vhd::open(&file).unwrap(), 0, 512), [0; 512]);
    disk.flush().unwrap();
    assert_eq!(read(&Vhd::open(&file).unwrap(), 0, 512), [7; 512]);
}

/// The host reports lost data once, to a write here: its sync has the report.
#[test]
fn a_sync_that_failed_in_a_write_fails_each_flush() {
    let file = image();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 512]);
    disk.flush().unwrap();
    let failed = disk
        .image
        .note_sync(Err(io::Error::from_raw_os_error(libc::ENOSPC)));
    assert!(failed.is_err());
    for _ in 0..2 {
        let error = disk.flush().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}

#[test]
fn sectors_without_data_are_zero() {
    let file = image();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 2048]);
    disk.flush().unwrap();
    let table = disk.body.as_ref().unwrap().table.read().unwrap();
    let start = u64::from(table.starts[0]) * SECTOR;
    drop(table);
    let mut bitmap = [0; 512];
    bitmap[0] = 0b0100_0000;
    file.write_all_at(&bitmap, start).unwrap();
    let disk = Vhd::open(&file).unwrap();
    let expected = [[0; 512], [7; 512], [0; 512], [0; 512]].concat();
    assert_eq!(read(&disk, 0, 2048), expected);
    write(&disk, 1024, &[8; 512]);
    let expected = [[0; 512], [7; 512], [8; 512], [0; 512]].concat();
    assert_eq!(read(&disk, 0, 2048), expected);
    assert_eq!(read(&Vhd::open(&file).unwrap(), 0, 2048), expected);
}

#[test]
fn discarded_ranges_are_zero() {
    let file = image();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 16384]);
    disk.discard(4096, 4096).unwrap();
    disk.write_zeroes(8192, u64::from(BLOCK_SIZE)).unwrap();
    let expected = [[7; 4096], [0; 4096], [0; 4096], [0; 4096]].concat();
    assert_eq!(read(&disk, 0, 16384), expected);
}

#[test]
fn fixed_disks_keep_their_footer() {
    let file = tempfile::tempfile().unwrap();
    let layout = VhdLayout {
        size: 8192,
        dynamic: None,
    };
    let footer = vhd::footer(&layout, [3; 16]);
    file.write_all_at(&footer, 8192).unwrap();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 7680, &[7; 512]);
    assert_eq!(read(&disk, 7168, 1024)[512..], [7; 512]);
    let mut last = [0; 512];
    file.read_exact_at(&mut last, 8192).unwrap();
    assert_eq!(last, footer);
}

#[test]
fn too_large_disks_are_refused() {
    let file = tempfile::tempfile().unwrap();
    assert!(create(&file, LARGEST + 512, [0; 16]).is_err());
}

#[test]
fn a_read_inside_a_sector_obeys_the_bitmap() {
    let file = image();
    let disk = Vhd::open(&file).unwrap();
    write(&disk, 0, &[7; 4096]);
    disk.flush().unwrap();
    let start = disk.body.as_ref().unwrap().table.read().unwrap().starts[0];
    // Every second sector has no data, and so reads as zeros.
    file.write_all_at(&[0xaa], u64::from(start) * SECTOR)
        .unwrap();
    let disk = Vhd::open(&file).unwrap();
    let whole = read(&disk, 0, 4096);
    assert_eq!((whole[0], whole[512], whole[1024]), (7, 0, 7));
    for (offset, length) in [(256, 1024), (511, 2), (1, 510), (513, 600), (0, 100)] {
        let expected = &whole[offset..offset + length];
        assert_eq!(
            read(&disk, offset as u64, length),
            expected,
            "{offset} {length}"
        );
    }
}
