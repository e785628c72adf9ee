// SPDX-License-Identifier: GPL-2.0-only
//! Footer, header and table of VHD. The input is an image file, whose checksums this target
//! corrects.

use crate::source::put;
use outboard_image::vhd::{self, VhdLayout, FOOTER, FREE, HEADER, SECTOR};

/// Corrects the checksum at `field` of the structure that begins at `start`. Nothing is there:
/// nothing happens.
fn correct(image: &mut [u8], start: usize, size: u64, field: usize) {
    let Some(bytes) = image.get_mut(start..start.saturating_add(size as usize)) else {
        return;
    };
    put(bytes, field, &[0; 4]);
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    put(bytes, field, &(!sum).to_be_bytes());
}

fn check(image: &[u8], layout: &VhdLayout) {
    assert_eq!(layout.size % SECTOR, 0);
    let Some(dynamic) = &layout.dynamic else {
        assert!(layout.size + FOOTER <= image.len() as u64);
        return;
    };
    assert!(dynamic.block_size.is_power_of_two());
    assert!(u64::from(dynamic.blocks) * u64::from(dynamic.block_size) >= layout.size);
    let Ok(blocks) = vhd::read_blocks(image, dynamic) else {
        return;
    };
    assert_eq!(blocks.starts.len(), dynamic.blocks as usize);
    let mut places: Vec<u64> = blocks
        .starts
        .iter()
        .map(|&start| u64::from(start))
        .collect();
    places.retain(|&start| start != u64::from(FREE));
    places.sort_unstable();
    for pair in places.windows(2) {
        assert!((pair[1] - pair[0]) * SECTOR >= dynamic.stored_size());
    }
    if let Some(last) = places.last() {
        assert!(last * SECTOR + dynamic.stored_size() <= blocks.end);
        assert!(blocks.is_cut || blocks.end <= image.len() as u64);
    }
}

pub fn run(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    let last = image.len().saturating_sub(FOOTER as usize);
    correct(&mut image, 0, FOOTER, 64);
    correct(&mut image, last, FOOTER, 64);
    if let Some(offset) = image.get(16..24) {
        let offset = u64::from_be_bytes(offset.try_into().expect("8 bytes"));
        correct(
            &mut image,
            usize::try_from(offset).unwrap_or(usize::MAX),
            HEADER,
            36,
        );
    }
    let image = image.as_slice();
    let _ = vhd::is_fixed(image);
    let Ok(layout) = vhd::read(image) else {
        return;
    };
    check(image, &layout);
    let footer = vhd::footer_of(image).expect("an image has one");
    let larger = vhd::resized(footer, layout.size + SECTOR);
    assert_eq!(vhd::footer_of(larger.as_slice()), Some(larger));
}
