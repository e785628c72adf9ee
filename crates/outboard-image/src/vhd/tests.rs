// SPDX-License-Identifier: GPL-2.0-only
//! VHD metadata, whole and damaged.

use super::*;

const BLOCK: u32 = 4096;
const STORED: usize = 512 + BLOCK as usize;
const FIRST: usize = 512 + 1024 + 512;

fn layout() -> VhdLayout {
    VhdLayout {
        size: 4 * u64::from(BLOCK),
        dynamic: Some(Dynamic {
            header: 512,
            table: 1536,
            blocks: 4,
            block_size: BLOCK,
        }),
    }
}

/// A dynamic disk of four blocks, two of which are in the file.
fn image() -> Vec<u8> {
    let layout = layout();
    let footer = footer(&layout, [7; 16]);
    let mut bytes = footer.to_vec();
    bytes.extend(header(&layout.dynamic.unwrap()));
    bytes.resize(FIRST + 2 * STORED, 0);
    for (index, start) in [FIRST + STORED, 0, FIRST, 0].into_iter().enumerate() {
        let sector = match start {
            0 => FREE,
            start => start as u32 / 512,
        };
        put(&mut bytes, 1536 + index * 4, &sector.to_be_bytes());
    }
    bytes.extend(footer);
    bytes
}

fn fixed(size: usize) -> Vec<u8> {
    let layout = VhdLayout {
        size: size as u64,
        dynamic: None,
    };
    let mut bytes = vec![0; size];
    bytes.extend(footer(&layout, [1; 16]));
    bytes
}

/// Puts a field into a footer or header, and the checksum right.
fn set(bytes: &mut [u8], start: usize, length: usize, sum: usize, field: usize, value: &[u8]) {
    let part = &mut bytes[start..start + length];
    put(part, field, value);
    let good = checksum(part, sum);
    put(part, sum, &good.to_be_bytes());
}

fn set_footer(bytes: &mut [u8], field: usize, value: &[u8]) {
    set(bytes, 0, 512, FOOTER_CHECKSUM, field, value);
}

fn set_header(bytes: &mut [u8], field: usize, value: &[u8]) {
    set(bytes, 512, 1024, HEADER_CHECKSUM, field, value);
}

fn blocks(bytes: &[u8]) -> Result<Blocks, Fault> {
    let layout = read(bytes)?;
    read_blocks(bytes, &layout.dynamic.unwrap())
}

#[test]
fn metadata_is_read_as_it_was_written() {
    let bytes = image();
    assert_eq!(read(bytes.as_slice()), Ok(layout()));
    let found = blocks(&bytes).unwrap();
    let sector = |at: usize| at as u32 / 512;
    let expected = [sector(FIRST + STORED), FREE, sector(FIRST), FREE];
    assert_eq!(found.starts, expected);
    assert_eq!(found.end as usize, bytes.len() - 512);
    assert!(!found.is_cut && !is_fixed(bytes.as_slice()));
}

#[test]
fn fixed_disks_are_known_by_their_end() {
    let bytes = fixed(8192);
    assert!(is_fixed(bytes.as_slice()));
    let layout = read(bytes.as_slice()).unwrap();
    assert_eq!((layout.size, layout.dynamic), (8192, None));
    assert!(!is_fixed(&bytes[512..]), "too short");
    assert!(!is_fixed(&bytes[..8192]), "no footer");
    let mut damaged = bytes;
    damaged[8192 + 100] ^= 1;
    assert!(!is_fixed(damaged.as_slice()), "wrong checksum");
}

#[test]
fn either_footer_will_do() {
    let mut bytes = image();
    bytes[100] ^= 1;
    assert_eq!(read(bytes.as_slice()), Ok(layout()));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(read(bytes.as_slice())
        .unwrap_err()
        .to_string()
        .contains("checksum"));
}

#[test]
fn damaged_footers_are_refused() {
    for (field, value, mentions) in [
        (60, 4u64 << 32, "differencing"),
        (60, 9 << 32, "type is 9"),
        (48, 0, "no bytes"),
        (48, 1 << 62, "no room"),
        (16, 0, "header"),
        (16, u64::MAX, "header"),
        (16, 1 << 40, "header"),
        (16, 1536, "header"),
    ] {
        let mut bytes = image();
        set_footer(
            &mut bytes,
            field,
            &value.to_be_bytes()[..if field == 60 { 4 } else { 8 }],
        );
        let error = read(bytes.as_slice()).unwrap_err();
        assert!(
            error.to_string().contains(mentions),
            "{field} {value}: {error}"
        );
        let is_unsupported = matches!(error, Fault::Unsupported(_));
        assert_eq!(is_unsupported, field == 60, "{error}");
    }
}

#[test]
fn damaged_headers_are_refused() {
    for (field, value, mentions) in [
        (28, 0u32, "0 blocks"),
        (28, u32::MAX, "blocks"),
        (28, MOST_BLOCKS, "beyond"),
        (28, 1, "no room"),
        (32, 0, "0 bytes"),
        (32, 4097, "4097 bytes"),
        (32, 512, "512 bytes"),
        (32, 1 << 31, "bytes"),
        (16, u32::MAX, "beyond"),
        (20, 1 << 30, "beyond"),
    ] {
        let mut bytes = image();
        set_header(&mut bytes, field, &value.to_be_bytes());
        let error = read(bytes.as_slice()).unwrap_err();
        assert!(
            error.to_string().contains(mentions),
            "{field} {value}: {error}"
        );
    }
    let mut bytes = image();
    bytes[600] ^= 1;
    assert!(read(bytes.as_slice())
        .unwrap_err()
        .to_string()
        .contains("checksum"));
    for length in 0..image().len() {
        let _ = read(&image()[..length]).map(|_| blocks(&image()[..length]));
    }
}

#[test]
fn parts_must_not_overlap() {
    let first = FIRST as u32 / 512;
    for (index, start) in [
        (0, first),
        (1, first + 1),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (3, first),
    ] {
        let mut bytes = image();
        put(&mut bytes, 1536 + index * 4, &start.to_be_bytes());
        let error = blocks(&bytes).unwrap_err();
        assert!(
            error.to_string().contains("overlap"),
            "{index} {start}: {error}"
        );
    }
    for table in [0u64, 256, 600, FIRST as u64] {
        let mut bytes = image();
        set_header(&mut bytes, 16, &table.to_be_bytes());
        assert!(blocks(&bytes).is_err(), "table at {table}");
    }
}

#[test]
fn a_cut_image_is_known() {
    let bytes = image();
    let cut = |length: usize| blocks(&bytes[..length]).unwrap().is_cut;
    assert!(!cut(bytes.len()) && !cut(FIRST + 2 * STORED));
    assert!(cut(FIRST + 2 * STORED - 1) && cut(FIRST));
    let mut bytes = image();
    put(&mut bytes, 1536 + 4, &(FREE - 1).to_be_bytes());
    assert!(blocks(&bytes).unwrap().is_cut);
}

#[test]
fn sizes_change() {
    let mut bytes = image();
    let footer = footer_of(bytes.as_slice()).unwrap();
    put(&mut bytes, 0, &resized(footer, 8192));
    assert_eq!(read(bytes.as_slice()).unwrap().size, 8192);
}
