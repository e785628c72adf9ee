// SPDX-License-Identifier: GPL-2.0-only
//! Places: `IMAGE:/PATH`, `IMAGE@N:/PATH`, `IMAGE@NAME:/PATH`, and paths of the host.
//!
//! The part before the first `:/` is the image; everything else is a host path. Two exceptions
//! allow files with odd names. If no such image exists, but a host file has the whole operand as
//! its name, the operand is that file. The longest prefix that names a host file is the image, with
//! all `@` in it. If no file exists yet, only a number after the last `@` is not part of the name.
//!
//! After the image follow the number of a partition and names of volumes in it, each after an `@`.
//! The names are known only when the image is open ([`crate::layers`]), and may contain an `@`.
//!
//! A name such as `nfs://server/export` means what a server has ([`crate::remote`]), unless a host
//! file has this name. Its path follows the first `:/` behind the scheme; without one it is the
//! root.
//!
//! A name with the prefix `oci:` or `docker-archive:` is that of an image of a container
//! ([`crate::container_image`]), also if a host file has this name. Its path follows the first `:/`
//! behind the prefix; without one it is the root.
//!
//! The prefixes `usb:` and `pci:` are reserved for places of other kinds. An operand with one of
//! them is an image that [`check_reserved`] refuses, also if a host file has this name.

use crate::container_image::ContainerFormat;
use crate::remote::{self, is_remote};
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Prefixes of operands that will mean places of other kinds: devices.
const RESERVED: [&str; 2] = ["usb:", "pci:"];

fn reserved_prefix(operand: &[u8]) -> Option<&'static str> {
    let mut prefixes = RESERVED.into_iter();
    prefixes.find(|prefix| operand.starts_with(prefix.as_bytes()))
}

/// Refuses an image whose name has a reserved prefix.
pub fn check_reserved(file: &Path) -> Result<()> {
    let name = file.as_os_str().as_bytes();
    let Some(prefix) = reserved_prefix(name) else {
        return Ok(());
    };
    let shown = escaped(name);
    Err(Error::Usage(format!(
        "{shown}: the prefix \"{prefix}\" is reserved: write ./{shown} for a file of this name"
    )))
}

/// A disk image, and a partition or volume in it; without both, the whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    pub file: PathBuf,
    pub partition: Option<u32>,
    /// The name of a volume in the partition, or anywhere in the image; or several names with `@`
    /// between them.
    pub volume: Option<OsString>,
}

impl ImageName {
    /// A whole image, or a partition.
    pub fn new(file: impl Into<PathBuf>, partition: Option<u32>) -> Self {
        Self {
            file: file.into(),
            partition,
            volume: None,
        }
    }

    /// As the user would write it.
    pub fn operand(&self) -> Vec<u8> {
        let mut text = self.file.as_os_str().as_bytes().to_vec();
        if let Some(number) = self.partition {
            text.extend(format!("@{number}").into_bytes());
        }
        if let Some(volume) = &self.volume {
            text.push(b'@');
            text.extend(volume.as_bytes());
        }
        text
    }

    /// For messages.
    pub fn shown(&self) -> String {
        escaped(&self.operand())
    }

    /// Parses `IMAGE`, `IMAGE@N` or `IMAGE@NAME`, with the files that the host has now.
    pub fn find(text: &OsStr) -> Self {
        Self::parse(text, |path| path.symlink_metadata().is_ok())
    }

    /// Parses `IMAGE`, `IMAGE@N` or `IMAGE@NAME`. `exists`: whether the host has a file of this
    /// name.
    pub fn parse(text: &OsStr, exists: impl Fn(&Path) -> bool) -> Self {
        let bytes = text.as_bytes();
        let path = |end: usize| Path::new(OsStr::from_bytes(&bytes[..end]));
        let is_container = ContainerFormat::of(bytes).is_some();
        if is_container || exists(path(bytes.len())) || reserved_prefix(bytes).is_some() {
            return Self::new(text, None);
        }
        if is_remote(Path::new(text)) {
            return match remote::selectors_at(bytes) {
                Some(at) => Self::with_selectors(path(at), &bytes[at + 1..]),
                None => Self::new(text, None),
            };
        }
        let ats = (1..bytes.len()).rev().filter(|&at| bytes[at] == b'@');
        for at in ats {
            if at + 1 < bytes.len() && exists(path(at)) {
                return Self::with_selectors(path(at), &bytes[at + 1..]);
            }
        }
        match split_partition(bytes) {
            Some((file, number)) => Self::new(OsStr::from_bytes(file), Some(number)),
            None => Self::new(text, None),
        }
    }

    /// `selectors`: the part after the image's first `@`.
    pub fn with_selectors(file: &Path, selectors: &[u8]) -> Self {
        let end = selectors.iter().position(|&byte| byte == b'@');
        let (first, rest) = match end {
            Some(end) => (&selectors[..end], Some(&selectors[end + 1..])),
            None => (selectors, None),
        };
        let volume = |bytes: &[u8]| Some(OsStr::from_bytes(bytes).to_owned());
        match (number(first), rest) {
            (Some(number), None) => Self::new(file, Some(number)),
            (Some(number), Some(rest)) if !rest.is_empty() => Self {
                volume: volume(rest),
                ..Self::new(file, Some(number))
            },
            _ => Self {
                volume: volume(selectors),
                ..Self::new(file, None)
            },
        }
    }
}

/// A place in an image or on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Host(PathBuf),
    Image(ImageName, PathBuf),
}

/// The number of a partition.
fn number(text: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(text).ok()?;
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok())?
}

fn split_partition(text: &[u8]) -> Option<(&[u8], u32)> {
    let at = text.iter().rposition(|&byte| byte == b'@')?;
    if at == 0 {
        return None;
    }
    Some((&text[..at], number(&text[at + 1..])?))
}

impl Place {
    /// Parses an operand. `exists`: whether the host has a file of this name.
    pub fn parse(operand: &OsStr, exists: impl Fn(&Path) -> bool) -> Self {
        let bytes = operand.as_bytes();
        let host = || Place::Host(PathBuf::from(operand));
        if reserved_prefix(bytes).is_some() {
            return Place::Image(ImageName::new(operand, None), "/".into());
        }
        let remote = || {
            let (_, start) = remote::Protocol::of(bytes)?;
            (!exists(operand.as_ref())).then_some(start)
        };
        let container = ContainerFormat::of(bytes).map(|(_, start)| start);
        if let Some(start) = container.or_else(remote) {
            let colon = bytes[start..].windows(2).position(|pair| pair == b":/");
            let end = colon.map_or(bytes.len(), |colon| start + colon);
            let name = ImageName::parse(OsStr::from_bytes(&bytes[..end]), &exists);
            let path = bytes.get(end + 1..).unwrap_or(b"/");
            return Place::Image(name, PathBuf::from(OsStr::from_bytes(path)));
        }
        let Some(colon) = bytes.windows(2).position(|pair| pair == b":/") else {
            return host();
        };
        if colon == 0 {
            return host();
        }
        let image = ImageName::parse(OsStr::from_bytes(&bytes[..colon]), &exists);
        if !exists(&image.file) && exists(Path::new(operand)) {
            return host();
        }
        let path = PathBuf::from(OsString::from(OsStr::from_bytes(&bytes[colon + 1..])));
        Place::Image(image, path)
    }

    /// Parses an operand, with the files that the host has now.
    pub fn find(operand: &OsStr) -> Self {
        Self::parse(operand, |path| path.symlink_metadata().is_ok())
    }

    /// The image, if a file name of the command line is a place in an existing image.
    pub fn image_of(path: &Path) -> Option<ImageName> {
        match Self::find(path.as_os_str()) {
            Place::Image(name, _) => Some(name)
                .filter(|name| is_remote(&name.file) || name.file.symlink_metadata().is_ok())
                .filter(|name| check_reserved(&name.file).is_ok()),
            Place::Host(_) => None,
        }
    }

    /// The path in the tree.
    pub fn path(&self) -> &Path {
        match self {
            Place::Host(path) | Place::Image(_, path) => path,
        }
    }

    /// The parent directory, by the path alone.
    pub fn parent(&self) -> Self {
        let path = self.path();
        self.with_path(path.parent().unwrap_or(path).to_path_buf())
    }

    /// As the user would write it.
    pub fn operand(&self) -> Vec<u8> {
        let mut text = match self {
            Place::Host(_) => Vec::new(),
            Place::Image(image, _) => [image.operand().as_slice(), b":"].concat(),
        };
        text.extend_from_slice(self.path().as_os_str().as_bytes());
        text
    }

    /// For messages.
    pub fn shown(&self) -> String {
        escaped(&self.operand())
    }

    /// A name in this directory.
    pub fn below(&self, name: &[u8]) -> Self {
        self.with_path(self.path().join(OsStr::from_bytes(name)))
    }

    /// Another path in the same image, or on the host.
    pub fn with_path(&self, path: PathBuf) -> Self {
        match self {
            Place::Host(_) => Place::Host(path),
            Place::Image(image, _) => Place::Image(image.clone(), path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(operand: &str, files: &[&str]) -> Place {
        Place::parse(OsStr::new(operand), |path| {
            files.iter().any(|file| Path::new(file) == path)
        })
    }

    fn image(file: &str, partition: Option<u32>, path: &str) -> Place {
        Place::Image(ImageName::new(file, partition), path.into())
    }

    fn volume(file: &str, partition: Option<u32>, volume: &str) -> Place {
        let name = ImageName {
            volume: Some(volume.into()),
            ..ImageName::new(file, partition)
        };
        Place::Image(name, "/".into())
    }

    #[test]
    fn images_and_partitions() {
        assert_eq!(parse("a.img:/etc", &[]), image("a.img", None, "/etc"));
        assert_eq!(parse("a.img@2:/", &[]), image("a.img", Some(2), "/"));
        assert_eq!(
            parse("./d/a@12:/x:/y", &[]),
            image("./d/a", Some(12), "/x:/y")
        );
        assert_eq!(parse("a@b:/", &[]), image("a@b", None, "/"));
        assert_eq!(parse("a@:/", &[]).path(), Path::new("/"));
        assert_eq!(
            parse("a@99999999999:/", &[]),
            image("a@99999999999", None, "/")
        );
    }

    #[test]
    fn host_paths() {
        for path in ["etc", "/etc", "a:b", "C:", ":/x", "", "@1"] {
            assert_eq!(parse(path, &[]), Place::Host(path.into()));
        }
    }

    #[test]
    fn files_with_odd_names() {
        assert_eq!(parse("a@2:/x", &["a@2"]), image("a@2", None, "/x"));
        assert_eq!(parse("a:/x", &["a:/x"]), Place::Host("a:/x".into()));
        assert_eq!(parse("a:/x", &["a:/x", "a"]), image("a", None, "/x"));
    }

    #[test]
    fn volumes() {
        let files = ["d", "d@2"];
        let in_d = |operand: &str| parse(operand, &files[..1]);
        assert_eq!(in_d("d@vg0/root:/"), volume("d", None, "vg0/root"));
        assert_eq!(in_d("d@2@vg0/root:/"), volume("d", Some(2), "vg0/root"));
        assert_eq!(in_d("d@2@@home:/"), volume("d", Some(2), "@home"));
        assert_eq!(in_d("d@2@@:/"), volume("d", Some(2), "@"));
        assert_eq!(in_d("d@@:/"), volume("d", None, "@"));
        assert_eq!(in_d("d@md0@1:/"), volume("d", None, "md0@1"));
        assert_eq!(in_d("d@2@:/"), volume("d", None, "2@"));
        assert_eq!(in_d("d@:/"), image("d@", None, "/"));
        assert_eq!(parse("d@2@a:/", &files), volume("d@2", None, "a"));
        assert_eq!(parse("d@2@3:/", &files), image("d@2", Some(3), "/"));
        assert_eq!(parse("e@2@3:/", &files), image("e@2", Some(3), "/"));
    }

    #[test]
    fn reserved_prefixes() {
        for operand in ["usb:1-2", "pci:/x", "usb:x@2:/etc", "usb:"] {
            for files in [&[] as &[&str], &[operand]] {
                let Place::Image(name, _) = parse(operand, files) else {
                    panic!("{operand} is a path of the host");
                };
                let error = check_reserved(&name.file).unwrap_err();
                let hint = format!("write ./{operand} for a file");
                assert!(error.message().unwrap().contains(&hint), "{error:?}");
                let name = ImageName::parse(OsStr::new(operand), |_| false);
                assert!(check_reserved(&name.file).is_err());
            }
        }
        for operand in ["./usb:/x", "/usb:/x", "usb/x:/y", "usbx:/y", "USB:/x"] {
            let Place::Image(name, _) = parse(operand, &[]) else {
                panic!("{operand} is a path of the host");
            };
            assert!(check_reserved(&name.file).is_ok(), "{operand}");
        }
        assert_eq!(parse("./usb:/x", &[]), image("./usb", None, "/x"));
    }

    #[test]
    fn images_of_containers() {
        for files in [&[] as &[&str], &["oci:d", "oci:d:12:/etc"]] {
            assert_eq!(
                parse("oci:d:12:/etc", files),
                image("oci:d:12", None, "/etc")
            );
            assert_eq!(parse("oci:d", files), image("oci:d", None, "/"));
            assert_eq!(parse("oci:/a/d@2", files), image("oci:/a/d@2", None, "/"));
            let archive = "docker-archive:/a/f.tar:x/y:12";
            assert_eq!(
                parse(&format!("{archive}:/b"), files),
                image(archive, None, "/b")
            );
        }
        assert_eq!(parse("./oci:/x", &[]), image("./oci", None, "/x"));
    }

    #[test]
    fn names_of_servers() {
        let root = "/";
        assert_eq!(parse("nfs://h/e:/x", &[]), image("nfs://h/e", None, "/x"));
        assert_eq!(parse("nfs://h:1/e", &[]), image("nfs://h:1/e", None, root));
        assert_eq!(
            parse("nfs://h/e@2:/", &[]),
            image("nfs://h/e@2", None, root)
        );
        assert_eq!(
            parse("smb://a@h/s:/", &[]),
            image("smb://a@h/s", None, root)
        );
        assert_eq!(
            parse("nbd://h/n@2:/x", &[]),
            image("nbd://h/n", Some(2), "/x")
        );
        let files = ["nfs://h/e:/x"];
        assert_eq!(parse(files[0], &files), Place::Host(files[0].into()));
        assert_eq!(parse("nbd://h/n@2:/x", &[]).shown(), "nbd://h/n@2:/x");
    }

    #[test]
    fn shown_as_written() {
        for text in ["a.img@3:/b/c", "a.img:/", "/host/path"] {
            assert_eq!(parse(text, &[]).shown(), text);
        }
        for text in ["d@2@@home:/x", "d@vg0/root:/", "d@@:/"] {
            assert_eq!(parse(text, &["d"]).shown(), text);
        }
    }
}
