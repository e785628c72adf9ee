// SPDX-License-Identifier: GPL-2.0-only
//! The words of `--mount`: VOLUME:/PATH.

use outboard_volume::address::ImageName;
use outboard_volume::program::VolumePlace;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The name of the volume ends at the last ":/". It may have colons.
pub fn parse_place(text: OsString) -> Result<VolumePlace, String> {
    let bytes = text.as_bytes();
    let place = bytes.windows(2).rposition(|pair| pair == b":/");
    let part = |bytes| OsStr::from_bytes(bytes);
    match place {
        Some(place) if place > 0 && place + 2 < bytes.len() => Ok(VolumePlace {
            volume: ImageName::find(part(&bytes[..place])),
            path: part(&bytes[place + 1..]).into(),
        }),
        _ => Err("use VOLUME:/PATH, as in data.img@2:/srv".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let place = parse_place("d.img@2:/srv/a".into()).unwrap();
        assert_eq!(place.path.to_str(), Some("/srv/a"));
        assert_eq!(place.volume, ImageName::find("d.img@2".as_ref()));
        for wrong in ["", "a", ":/b", "a:/", "a:b"] {
            assert!(parse_place(wrong.into()).is_err(), "{wrong}");
        }
    }
}
