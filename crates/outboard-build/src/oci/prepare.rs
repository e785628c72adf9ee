// SPDX-License-Identifier: GPL-2.0-only
//! From the name of an image of a container to its file system.

use super::cache::ImageCache;
use super::found::FoundImage;
use super::unpack::unpack;
use super::{docker_archive, layout};
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_volume::container_image::{ContainerFormat, ContainerImage};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Makes the image of this name ready, which begins with the prefix of a format. The process must
/// have one thread. `confined`: layers are unpacked in the sandbox. Blocks until that is done,
/// unless it was done before.
pub fn prepare(name: &Path, confined: bool) -> Result<ContainerImage> {
    let found = find(name)?;
    let cache = ImageCache::open();
    let file = match cache.find(found.identity) {
        Some(file) => file,
        None => cache.make(found.identity, |file| unpack(&found, file, confined))?,
    };
    Ok(ContainerImage {
        name: name.to_owned(),
        file: Arc::new(file),
        defaults: found.defaults,
    })
}

fn find(name: &Path) -> Result<FoundImage> {
    let bytes = name.as_os_str().as_bytes();
    let shown = escaped(bytes);
    let usage = |why: &str| Error::Usage(format!("{shown}: {why}"));
    let Some((format, start)) = ContainerFormat::of(bytes) else {
        return Err(usage("this is no name of an image of a container"));
    };
    let (path, tag) = split_tag(&bytes[start..], |path| path.exists());
    let path = Path::new(OsStr::from_bytes(path));
    let tag = tag.map(std::str::from_utf8).transpose();
    let tag = tag.map_err(|_| usage("the tag is not UTF-8"))?;
    match format {
        _ if path.as_os_str().is_empty() => Err(usage("there is no path behind the prefix")),
        ContainerFormat::Oci => layout::find(path, tag, &shown),
        ContainerFormat::DockerArchive => docker_archive::find(path, tag, &shown),
    }
}

/// The path, and the tag behind it. A path that exists may have colons.
fn split_tag(text: &[u8], exists: impl Fn(&Path) -> bool) -> (&[u8], Option<&[u8]>) {
    let path = |end: usize| Path::new(OsStr::from_bytes(&text[..end]));
    if exists(path(text.len())) {
        return (text, None);
    }
    let colons = (0..text.len()).filter(|&at| text[at] == b':');
    let at = colons.clone().rev().find(|&at| exists(path(at)));
    match at.or_else(|| colons.clone().next()) {
        Some(at) => (
            &text[..at],
            Some(&text[at + 1..]).filter(|tag| !tag.is_empty()),
        ),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_follows_a_path() {
        let split = |text: &'static str, files: &[&str]| {
            let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
            let (path, tag) = split_tag(text.as_bytes(), exists);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(path), tag.map(text))
        };
        let tagged = |path: &str, tag: &str| (path.to_owned(), Some(tag.to_owned()));
        assert_eq!(split("d", &[]), ("d".to_owned(), None));
        assert_eq!(split("d:12", &["d"]), tagged("d", "12"));
        assert_eq!(split("a:b", &["a:b"]), ("a:b".to_owned(), None));
        assert_eq!(split("a:b:c", &["a:b"]), tagged("a:b", "c"));
        assert_eq!(
            split("f.tar:x/debian:12", &["f.tar"]),
            tagged("f.tar", "x/debian:12")
        );
        assert_eq!(split("none:12", &[]), tagged("none", "12"));
        assert_eq!(split("d:", &["d"]), ("d".to_owned(), None));
    }
}
