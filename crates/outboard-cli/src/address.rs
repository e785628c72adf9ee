// SPDX-License-Identifier: GPL-2.0-only
//! Places: `IMAGE:/PATH`, `IMAGE@N:/PATH`, and paths of the host.
//!
//! The part before the first `:/` is the image; everything else is a host path. Two exceptions let
//! files with odd names be used: where no such image exists but the whole operand is the name of
//! a host file, it is that file; and `@N` is part of the image's name where a file of that name exists.

use crate::format::escaped;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A disk image and one of its partitions, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    pub file: PathBuf,
    pub partition: Option<u32>,
}

impl ImageName {
    /// As the user would write it.
    fn operand(&self) -> Vec<u8> {
        let mut text = self.file.as_os_str().as_bytes().to_vec();
        if let Some(number) = self.partition {
            text.extend(format!("@{number}").into_bytes());
        }
        text
    }

    /// For messages.
    pub fn shown(&self) -> String {
        escaped(&self.operand())
    }

    /// `IMAGE` or `IMAGE@N`, with what the host has now.
    pub fn find(text: &OsStr) -> Self {
        Self::parse(text, |path| path.symlink_metadata().is_ok())
    }

    /// `IMAGE` or `IMAGE@N`. `exists`: whether the host has a file of this name.
    pub fn parse(text: &OsStr, exists: impl Fn(&Path) -> bool) -> Self {
        let whole = Self {
            file: PathBuf::from(text),
            partition: None,
        };
        match split_partition(text.as_bytes()) {
            Some((file, number)) if !exists(&whole.file) => Self {
                file: PathBuf::from(OsStr::from_bytes(file)),
                partition: Some(number),
            },
            _ => whole,
        }
    }
}

/// A place in an image or on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Host(PathBuf),
    Image(ImageName, PathBuf),
}

fn split_partition(text: &[u8]) -> Option<(&[u8], u32)> {
    let at = text.iter().rposition(|&byte| byte == b'@')?;
    let digits = std::str::from_utf8(&text[at + 1..]).ok()?;
    if at == 0 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((&text[..at], digits.parse().ok()?))
}

impl Place {
    /// Understands an operand. `exists`: whether the host has a file of this name.
    pub fn parse(operand: &OsStr, exists: impl Fn(&Path) -> bool) -> Self {
        let bytes = operand.as_bytes();
        let host = || Place::Host(PathBuf::from(operand));
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

    /// Understands an operand with what the host has now.
    pub fn find(operand: &OsStr) -> Self {
        Self::parse(operand, |path| path.symlink_metadata().is_ok())
    }

    pub fn path(&self) -> &Path {
        match self {
            Place::Host(path) | Place::Image(_, path) => path,
        }
    }

    /// The directory that it is in, by its name alone.
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

    /// A name in the directory that it is.
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
        let file = file.into();
        Place::Image(ImageName { file, partition }, path.into())
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
    fn shown_as_written() {
        for text in ["a.img@3:/b/c", "a.img:/", "/host/path"] {
            assert_eq!(parse(text, &[]).shown(), text);
        }
    }
}
