// SPDX-License-Identifier: GPL-2.0-only
//! Images in a directory with the OCI's layout: `index.json`, and a file for each part, named by
//! its digest. A part is read only after its digest was compared.

use super::digest::BlobDigest;
use super::documents::{self, ImageConfig, Index, Manifest, PartDescriptor, Platform};
use super::found::{
    check_platform, damaged, defaults, unsupported, FoundImage, Layer, ARCHITECTURE, OS,
};
use super::section::FileSection;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The annotation with the tag of an image.
const TAG: &str = "org.opencontainers.image.ref.name";
/// The tag of an image that the user names without one.
const USUAL_TAG: &str = "latest";
/// Indexes that lie in each other.
const DEEPEST: usize = 4;

const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
const LAYERS: [&str; 4] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];
/// Endings of the types of layers; the bytes say which compression it is.
const COMPRESSIONS: [&str; 6] = ["", "+gzip", "+zstd", ".gzip", ".zstd", "+xz"];

struct OciLayout<'a> {
    directory: &'a Path,
    /// For messages.
    shown: &'a str,
}

/// Finds an image. `shown`: its name for messages.
pub(super) fn find(directory: &Path, tag: Option<&str>, shown: &str) -> Result<FoundImage> {
    let layout = OciLayout { directory, shown };
    let bytes = layout.file("index.json", None)?;
    let index = layout.document("index.json", &bytes)?;
    let chosen = layout.choose(index, tag)?;
    let manifest = layout.manifest(chosen)?;
    layout.image(manifest)
}

fn is_layer(media_type: &str) -> bool {
    let ending = |kind: &&str| media_type.strip_prefix(*kind);
    let mut endings = LAYERS.iter().filter_map(ending);
    endings.any(|ending| COMPRESSIONS.contains(&ending))
}

fn is_ours(platform: &Platform) -> bool {
    platform.architecture == ARCHITECTURE && platform.os == OS
}

/// The tag of a manifest in the index.
fn tag_of(descriptor: &PartDescriptor) -> Option<&str> {
    let annotations = descriptor.annotations.as_ref()?;
    annotations.get(TAG).map(String::as_str)
}

impl OciLayout<'_> {
    fn damaged(&self, why: impl AsRef<str>) -> Error {
        damaged(self.shown, why)
    }

    /// Opens a regular file of the layout. It never waits, whatever the file is.
    fn open(&self, name: &str) -> Result<FileSection> {
        let path = self.directory.join(name);
        let open = || -> io::Result<FileSection> {
            let mut options = File::options();
            let file = options
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            Ok(FileSection::new(Arc::new(file), 0, metadata.len()))
        };
        open().map_err(|error| {
            let operand = path.as_os_str().as_bytes().to_vec();
            Error::of_file(&format!("{}: cannot open", self.shown), operand, &error)
        })
    }

    /// The bytes of a small file. `digest`: what they must have.
    fn file(&self, name: &str, digest: Option<BlobDigest>) -> Result<Vec<u8>> {
        let section = self.open(name)?;
        let bytes = section.bytes(documents::MOST);
        let bytes = bytes.map_err(|error| self.damaged(format!("{name}: {error}")))?;
        match digest {
            Some(digest) if digest != BlobDigest::of_bytes(&bytes) => Err(self.damaged(format!(
                "{name} does not have the digest that is its name: copy the image again"
            ))),
            _ => Ok(bytes),
        }
    }

    fn document<T: serde::de::DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        documents::parse(bytes).map_err(|why| self.damaged(format!("{name}: {why}")))
    }

    fn digest(&self, descriptor: &PartDescriptor) -> Result<BlobDigest> {
        BlobDigest::parse(&descriptor.digest).ok_or_else(|| {
            let digest = escaped(descriptor.digest.as_bytes());
            self.damaged(format!(
                "{digest} is no digest by sha256, which all parts need"
            ))
        })
    }

    /// The name of the file that has a part, and the digest.
    fn place(&self, descriptor: &PartDescriptor) -> Result<(String, BlobDigest)> {
        let digest = self.digest(descriptor)?;
        Ok((format!("blobs/sha256/{}", digest.digits()), digest))
    }

    /// A part that is a document.
    fn part(&self, descriptor: &PartDescriptor) -> Result<Vec<u8>> {
        let (name, digest) = self.place(descriptor)?;
        let bytes = self.file(&name, Some(digest))?;
        self.check_size(descriptor, bytes.len() as u64)?;
        Ok(bytes)
    }

    fn check_size(&self, descriptor: &PartDescriptor, size: u64) -> Result<()> {
        if descriptor.size == size {
            return Ok(());
        }
        let said = descriptor.size;
        let why = format!(
            "{} has {size} bytes, not {said} as is said",
            descriptor.digest
        );
        Err(self.damaged(why))
    }

    /// The manifest that the user means: by its tag, or the only one.
    fn choose(&self, index: Index, tag: Option<&str>) -> Result<PartDescriptor> {
        let all = index.manifests;
        let tags: Vec<String> = all.iter().filter_map(tag_of).map(str::to_owned).collect();
        let has = |wanted: &str| all.iter().find(|one| tag_of(one) == Some(wanted)).cloned();
        let found = match (tag, &all[..]) {
            (Some(tag), _) => has(tag),
            (None, [only]) => Some(only.clone()),
            (None, many) => has(USUAL_TAG).or_else(|| {
                let ours = |one: &&PartDescriptor| one.platform.as_ref().is_some_and(is_ours);
                many.iter().find(ours).filter(|_| tags.is_empty()).cloned()
            }),
        };
        found.ok_or_else(|| match (tag, &tags[..]) {
            (_, []) if all.is_empty() => self.damaged("index.json has no image"),
            (_, []) => unsupported(
                self.shown,
                "no image in it has a tag, or is for this machine",
            ),
            (Some(tag), tags) => unsupported(
                self.shown,
                format!("there is no tag {tag:?}: its tags: {}", tags.join(", ")),
            ),
            (None, tags) => unsupported(
                self.shown,
                format!(
                    "it has several images: add one of the tags, as in :{}",
                    tags.join(", :")
                ),
            ),
        })
    }

    /// The manifest that a descriptor leads to, through indexes.
    fn manifest(&self, mut descriptor: PartDescriptor) -> Result<Manifest> {
        for _ in 0..=DEEPEST {
            let bytes = self.part(&descriptor)?;
            let kind = descriptor.media_type.as_str();
            if MANIFESTS.contains(&kind) {
                return self.document(&descriptor.digest, &bytes);
            }
            if !INDEXES.contains(&kind) {
                let kind = escaped(kind.as_bytes());
                let why = format!("{} is of the type {kind:?}, no image", descriptor.digest);
                return Err(unsupported(self.shown, why));
            }
            let index: Index = self.document(&descriptor.digest, &bytes)?;
            descriptor = self.of_platform(index)?;
        }
        Err(self.damaged(format!("more than {DEEPEST} indexes lie in each other")))
    }

    fn of_platform(&self, index: Index) -> Result<PartDescriptor> {
        let is_ours = |one: &&PartDescriptor| one.platform.as_ref().is_some_and(is_ours);
        if let Some(found) = index.manifests.iter().find(is_ours) {
            return Ok(found.clone());
        }
        match <[PartDescriptor; 1]>::try_from(index.manifests) {
            Ok([only]) if only.platform.is_none() => Ok(only),
            _ => Err(unsupported(
                self.shown,
                format!("it has no image for {OS} on {ARCHITECTURE}"),
            )),
        }
    }

    fn image(&self, manifest: Manifest) -> Result<FoundImage> {
        if manifest.layers.len() > documents::MOST_LAYERS {
            let count = manifest.layers.len();
            return Err(unsupported(
                self.shown,
                format!("it has {count} layers, too many"),
            ));
        }
        let bytes = self.part(&manifest.config)?;
        let config: ImageConfig = self.document(&manifest.config.digest, &bytes)?;
        check_platform(self.shown, &config)?;
        let plain = config.layer_digests(manifest.layers.len());
        let plain = plain.map_err(|why| self.damaged(why))?;
        let layers = manifest.layers.iter().zip(plain);
        let layers: Result<Vec<Layer>> = layers
            .map(|(layer, plain)| self.layer(layer, plain))
            .collect();
        Ok(FoundImage {
            shown: self.shown.to_owned(),
            identity: self.digest(&manifest.config)?,
            layers: layers?,
            defaults: defaults(self.shown, config.config)?,
        })
    }

    fn layer(&self, descriptor: &PartDescriptor, plain: BlobDigest) -> Result<Layer> {
        let digest = &descriptor.digest;
        if !is_layer(&descriptor.media_type) {
            let kind = escaped(descriptor.media_type.as_bytes());
            let why = format!("the layer {digest} is of the type {kind:?}, no archive");
            return Err(unsupported(self.shown, why));
        }
        let (name, stored) = self.place(descriptor)?;
        let path: PathBuf = self.directory.join(&name);
        if let (Some(url), false) = (descriptor.urls.iter().flatten().next(), path.exists()) {
            let url = escaped(url.as_bytes());
            let why = format!("the layer {digest} is not in it: put {url} there as {name}");
            return Err(unsupported(self.shown, why));
        }
        let bytes = self.open(&name)?;
        self.check_size(descriptor, bytes.size())?;
        Ok(Layer {
            bytes,
            stored: Some(stored),
            plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_have_types() {
        for good in [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        ] {
            assert!(is_layer(good), "{good}");
        }
        for other in [
            "",
            "application/vnd.oci.image.layer.v1.tar+encrypted",
            "text/plain",
        ] {
            assert!(!is_layer(other), "{other}");
        }
    }
}
