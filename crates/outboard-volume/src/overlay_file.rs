// SPDX-License-Identifier: GPL-2.0-only
//! Overlays: qcow2 images that hold the changes of programs over an image, which stays as it is.
//!
//! | the overlay's name | [`prepare`] |
//! |---|---|
//! | means nothing yet | makes an overlay, complete before it gets the name |
//! | means an overlay over the image | checks that the image still has the same size |
//! | means anything else | refuses |
//!
//! Then every command opens the overlay as any qcow2 image with a backing file (`containers`).

use crate::containers::{create_overlay, format_of, ImageOptions};
use crate::image_file::{cannot_open, open_image_file};
use crate::new_image::SECTOR;
use crate::new_overlay::NewOverlay;
use crate::options::Options;
use crate::remote::is_remote;
use crate::scratch::{directory_of, Scratch};
use outboard_error::format::{escaped, size as size_text};
use outboard_error::{Error, ErrorKind, Result};
use outboard_image::qcow2::{self, Qcow2Header};
use outboard_image::{FileSource, Source};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes of a backing file's name in the format.
const NAME: usize = 1023;

/// The image below an overlay, as its bytes are read.
struct Base<'a> {
    path: &'a Path,
    metadata: Metadata,
    /// As a header names it.
    format: &'static str,
    /// Bytes of its disk.
    size: u64,
}

/// Makes an overlay over an image, or finds the one that there is. Before the sandbox, in a process
/// with one thread. From then on, `options` open the overlay. Returns the one that was made.
pub fn prepare(
    overlay: &Path,
    image: &Path,
    options: &mut Options,
    umask: u32,
) -> Result<Option<NewOverlay>> {
    let is_new = make_or_find(overlay, image, options, umask)?;
    is_new.then(|| NewOverlay::watch(overlay)).transpose()
}

/// Returns whether it was made.
fn make_or_find(overlay: &Path, image: &Path, options: &mut Options, umask: u32) -> Result<bool> {
    let base = Base::find(image, &options.image_options())?;
    let is_there = || overlay.symlink_metadata().is_ok();
    let is_new = !is_there()
        && match make(overlay, &base, umask) {
            // Another command was faster.
            Err(_) if is_there() => false,
            made => made.map(|()| true)?,
        };
    check(overlay, &base)?;
    // Its header says how the image below is read, and where it is.
    options.raw = false;
    options.backing.push(image.to_owned());
    Ok(is_new)
}

impl<'a> Base<'a> {
    fn find(path: &'a Path, options: &ImageOptions) -> Result<Self> {
        if is_remote(path) {
            return Err(Error::Usage(format!(
                "{} is on a server: an overlay is over a file of this host",
                path.display()
            )));
        }
        let failed = |error: io::Error| cannot_open(path, &error);
        let file = open_image_file(path).map_err(failed)?;
        let format = format_of(&file, options).map_err(failed)?.unwrap_or("raw");
        let source = FileSource::new(file.try_clone().map_err(failed)?).map_err(failed)?;
        let size = match format {
            "raw" => source.size(),
            "qcow2" => header(&source, path)?.size,
            other => {
                let text = format!(
                    "cannot make an overlay over {}: it is a {other} image; make a qcow2 image of \
                     it first, with qemu-img convert -O qcow2",
                    path.display()
                );
                return Err(Error::known(ErrorKind::Unsupported, text));
            }
        };
        Ok(Self {
            path,
            metadata: file.metadata().map_err(failed)?,
            format,
            size: size.next_multiple_of(SECTOR),
        })
    }

    fn is(&self, other: &Metadata) -> bool {
        (self.metadata.dev(), self.metadata.ino()) == (other.dev(), other.ino())
    }

    /// Its name in the header of an overlay: relative to the overlay's directory if it lies there
    /// or below.
    fn name_from(&self, overlay: &Path) -> Result<String> {
        let real = || -> io::Result<PathBuf> {
            let directory = directory_of(self.path).canonicalize()?;
            let path = directory.join(self.path.file_name().unwrap_or_default());
            let home = directory_of(overlay).canonicalize()?;
            Ok(path.strip_prefix(home).map(below).unwrap_or(path.clone()))
        };
        let name = real().map_err(|error| cannot_open(self.path, &error))?;
        let text = name.to_str().filter(|text| text.len() <= NAME);
        text.map(str::to_owned).ok_or_else(|| {
            let text = format!(
                "cannot make an overlay over {}: the format takes names of at most {NAME} bytes \
                 in UTF-8; give the image another name",
                self.path.display()
            );
            Error::known(ErrorKind::Unsupported, text)
        })
    }
}

/// A relative name, in which no colon begins a protocol.
fn below(name: &Path) -> PathBuf {
    let bytes = name.as_os_str().as_bytes();
    if bytes.contains(&b':') {
        Path::new(".").join(name)
    } else {
        name.to_owned()
    }
}

fn header(source: &FileSource, path: &Path) -> Result<Qcow2Header> {
    qcow2::read(source).map_err(|fault| {
        let text = format!(
            "cannot open image {}: a qcow2 image, but {fault}",
            path.display()
        );
        Error::known(ErrorKind::Damaged, text)
    })
}

fn make(overlay: &Path, base: &Base, umask: u32) -> Result<()> {
    let name = base.name_from(overlay)?;
    let file = Scratch::beside(overlay, 0)?;
    let made = File::options().read(true).write(true).open(file.path());
    made.and_then(|made| create_overlay(made, base.size, name, base.format))
        .map_err(|error| Error::failed(format!("cannot make {}", overlay.display()), &error))?;
    file.keep_as(overlay, false, umask)
}

/// Refuses what is no overlay over the image.
fn check(overlay: &Path, base: &Base) -> Result<()> {
    let failed = |error: io::Error| cannot_open(overlay, &error);
    let shown = overlay.display();
    let file = open_image_file(overlay).map_err(failed)?;
    if base.is(&file.metadata().map_err(failed)?) {
        return Err(Error::Usage(format!(
            "{shown} is the image itself: an overlay over it is another file; give it another name"
        )));
    }
    let refused = |reason: String| {
        let text = format!(
            "{shown} is no overlay over {}: {reason}",
            base.path.display()
        );
        Err(Error::known(ErrorKind::AlreadyExists, text))
    };
    let advice = "give the overlay another name to begin anew";
    let format = format_of(&file, &ImageOptions::default()).map_err(failed)?;
    if format != Some("qcow2") {
        let format = format.map_or_else(String::new, |format| format!(" but a {format} image"));
        return refused(format!("it is no qcow2 image{format}; {advice}"));
    }
    let source = FileSource::new(file).map_err(failed)?;
    let header = header(&source, overlay)?;
    let Some(name) = header.backing.filter(|name| !name.is_empty()) else {
        return refused(format!("it is an image without a backing file; {advice}"));
    };
    let below = directory_of(overlay).join(OsStr::from_bytes(&name));
    if !below.metadata().is_ok_and(|found| base.is(&found)) {
        return refused(format!("it is one over \"{}\"; {advice}", escaped(&name)));
    }
    let format = header.backing_format.as_deref();
    if format.is_some_and(|format| format != base.format.as_bytes()) {
        let format = escaped(format.unwrap_or_default());
        return refused(format!(
            "it takes it for a {format} image, which is {}",
            base.format
        ));
    }
    if header.size != base.size {
        return refused(format!(
            "its disk has {}, and the image now {}; {advice}",
            size_text(header.size),
            size_text(base.size)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &Path) -> Base<'_> {
        Base::find(path, &ImageOptions::default()).unwrap()
    }

    #[test]
    fn names_are_relative_below_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("sub")).unwrap();
        for (image, overlay, name) in [
            ("base", "top", "base"),
            ("sub/base", "top", "sub/base"),
            ("a:b", "top", "./a:b"),
        ] {
            std::fs::write(home.join(image), [0; 513]).unwrap();
            let path = home.join(image);
            let base = find(&path);
            assert_eq!((base.format, base.size), ("raw", 1024));
            assert_eq!(base.name_from(&home.join(overlay)).unwrap(), name);
        }
        let path = home.join("base");
        let name = find(&path).name_from(&home.join("sub/top")).unwrap();
        assert_eq!(Path::new(&name), path);
    }

    #[test]
    fn overlays_of_other_images_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        let top = directory.path().join("top");
        std::fs::write(&one, [0; 4096]).unwrap();
        std::fs::write(&other, [0; 4096]).unwrap();
        let mut options = Options::default();
        let mut prepare = |image: &Path| make_or_find(&top, image, &mut options, 0o22);
        for is_new in [true, false] {
            assert_eq!(prepare(&one).unwrap(), is_new);
        }
        for image in [&other, &top] {
            assert!(prepare(image).is_err(), "{}", image.display());
        }
        std::fs::write(&one, [0; 8192]).unwrap();
        let error = prepare(&one).unwrap_err();
        assert!(error.message().unwrap().contains("8"), "{error:?}");
    }
}
