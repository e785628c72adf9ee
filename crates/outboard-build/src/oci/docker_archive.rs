// SPDX-License-Identifier: GPL-2.0-only
//! Images in an archive of `docker save`: `manifest.json` names the members that have the
//! configuration and the layers.

use super::digest::BlobDigest;
use super::documents::{self, DockerManifest, ImageConfig};
use super::found::{check_platform, damaged, defaults, unsupported, FoundImage, Layer};
use super::section::FileSection;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_transfer::tar::clean;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

const MANIFEST: &str = "manifest.json";
/// Most members of the archive.
const MOST_MEMBERS: usize = 20_000;
/// Links that lead to each other.
const MOST_LINKS: usize = 4;
/// Names of images have these in front if nothing else is there; Docker does not show them.
const USUAL_PLACES: [&str; 2] = ["docker.io/library/", "docker.io/"];

/// A member of the archive.
enum DockerMember {
    /// Its offset and size.
    File(u64, u64),
    /// A clean path in the archive.
    Link(Vec<u8>),
}

struct DockerArchive<'a> {
    file: Arc<File>,
    members: HashMap<Vec<u8>, DockerMember>,
    /// For messages.
    shown: &'a str,
}

/// Finds an image. `shown`: its name for messages.
pub(super) fn find(path: &Path, tag: Option<&str>, shown: &str) -> Result<FoundImage> {
    let archive = DockerArchive::open(path, shown)?;
    let images: Vec<DockerManifest> = archive.document(MANIFEST, &archive.bytes(MANIFEST)?)?;
    let chosen = archive.choose(&images, tag)?;
    archive.image(chosen)
}

/// A name of `REPOSITORY:TAG` as Docker shows it. `skopeo` and `podman` write the whole name.
fn short(name: &str) -> &str {
    let mut places = USUAL_PLACES.iter();
    places
        .find_map(|place| name.strip_prefix(place))
        .unwrap_or(name)
}

/// Whether a name of `REPOSITORY:TAG` is what the user wrote: all of it, or its tag.
fn has_tag(known: &str, wanted: &str) -> bool {
    let tag = known.rsplit_once(':').map(|(_, tag)| tag);
    short(known) == short(wanted) || tag == Some(wanted)
}

/// The path that a link of a member leads to.
fn link_target(member: &[u8], target: &[u8], is_symbolic: bool) -> Option<Vec<u8>> {
    if !is_symbolic {
        return clean(target);
    }
    let mut names: Vec<&[u8]> = member.split(|&byte| byte == b'/').collect();
    names.pop();
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join(&b'/'))
}

/// Where the members of an archive are.
fn members(file: &File) -> io::Result<HashMap<Vec<u8>, DockerMember>> {
    let mut found = HashMap::new();
    let mut archive = ::tar::Archive::new(file);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let Some(path) = clean(&entry.path_bytes()) else {
            continue;
        };
        let kind = entry.header().entry_type();
        let target = entry.link_name_bytes();
        let target = target.and_then(|target| link_target(&path, &target, kind.is_symlink()));
        let member = match target {
            Some(target) if kind.is_symlink() || kind.is_hard_link() => DockerMember::Link(target),
            _ if kind.is_file() => DockerMember::File(entry.raw_file_position(), entry.size()),
            _ => continue,
        };
        found.insert(path, member);
        if found.len() > MOST_MEMBERS {
            return Err(io::Error::other(format!(
                "it has more than {MOST_MEMBERS} files"
            )));
        }
    }
    Ok(found)
}

impl<'a> DockerArchive<'a> {
    fn open(path: &Path, shown: &'a str) -> Result<Self> {
        let operand = || path.as_os_str().as_bytes().to_vec();
        let what = format!("{shown}: cannot open");
        let failed = |error| Error::of_file(&what, operand(), &error);
        let mut options = File::options();
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            let why = "it is no file: this name is for archives of docker save; a directory may \
                       be an image of the prefix oci:";
            return Err(unsupported(shown, why));
        }
        let members = members(&file).map_err(|error| {
            let why = format!("it is no archive of docker save, or compressed: {error}");
            damaged(shown, why)
        })?;
        Ok(Self {
            file: Arc::new(file),
            members,
            shown,
        })
    }

    fn section(&self, name: &str) -> Result<FileSection> {
        let missing = || {
            damaged(
                self.shown,
                format!("{} is not in it", escaped(name.as_bytes())),
            )
        };
        let mut path = clean(name.as_bytes()).ok_or_else(missing)?;
        for _ in 0..=MOST_LINKS {
            match self.members.get(&path).ok_or_else(missing)? {
                DockerMember::Link(target) => path.clone_from(target),
                DockerMember::File(start, size) => {
                    return Ok(FileSection::new(Arc::clone(&self.file), *start, *size))
                }
            }
        }
        Err(damaged(
            self.shown,
            format!("{name} is a link to a link, and so on"),
        ))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let bytes = self.section(name)?.bytes(documents::MOST);
        bytes.map_err(|error| damaged(self.shown, format!("{name}: {error}")))
    }

    fn document<T: serde::de::DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        documents::parse(bytes).map_err(|why| damaged(self.shown, format!("{name}: {why}")))
    }

    fn choose<'b>(
        &self,
        images: &'b [DockerManifest],
        tag: Option<&str>,
    ) -> Result<&'b DockerManifest> {
        let tags = |image: &'b DockerManifest| image.repo_tags.iter().flatten();
        let fits = |image: &&DockerManifest| {
            let mut tags = image.repo_tags.iter().flatten();
            tag.is_none_or(|wanted| tags.any(|known| has_tag(known, wanted)))
        };
        let mut fitting = images.iter().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Ok(only),
            (found, _) => {
                let known: Vec<&str> = images.iter().flat_map(tags).map(String::as_str).collect();
                let what = if found.is_some() {
                    "it has several images of this name"
                } else {
                    "it has no image of this name"
                };
                let known = known.join(", ");
                Err(unsupported(
                    self.shown,
                    format!("{what}: add one of the tags: {known}"),
                ))
            }
        }
    }

    fn image(&self, chosen: &DockerManifest) -> Result<FoundImage> {
        let count = chosen.layers.len();
        if count > documents::MOST_LAYERS {
            return Err(unsupported(
                self.shown,
                format!("it has {count} layers, too many"),
            ));
        }
        let bytes = self.bytes(&chosen.config)?;
        let identity = BlobDigest::of_bytes(&bytes);
        self.check_name(&chosen.config, identity)?;
        let config: ImageConfig = self.document(&chosen.config, &bytes)?;
        check_platform(self.shown, &config)?;
        let plain = config.layer_digests(count);
        let plain = plain.map_err(|why| damaged(self.shown, why))?;
        let layers = chosen.layers.iter().zip(plain);
        let layer = |(name, plain): (&String, BlobDigest)| {
            Ok(Layer {
                bytes: self.section(name)?,
                stored: None,
                plain,
            })
        };
        Ok(FoundImage {
            shown: self.shown.to_owned(),
            identity,
            layers: layers.map(layer).collect::<Result<_>>()?,
            defaults: defaults(self.shown, config.config)?,
        })
    }

    /// The configuration's name has its digest.
    fn check_name(&self, name: &str, identity: BlobDigest) -> Result<()> {
        let last = name.rsplit('/').next().unwrap_or(name);
        let digits = last.strip_suffix(".json").unwrap_or(last);
        match BlobDigest::of_digits(digits) {
            Some(said) if said != identity => Err(damaged(
                self.shown,
                format!("{name} does not have the digest that is its name: copy the image again"),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_the_archive() {
        let target = |member: &str, target: &str| {
            let found = link_target(member.as_bytes(), target.as_bytes(), true);
            found.map(|path| String::from_utf8(path).unwrap())
        };
        assert_eq!(target("a/layer.tar", "../b.tar"), Some("b.tar".to_owned()));
        assert_eq!(target("a/layer.tar", "../../b.tar"), None);
        assert_eq!(target("layer.tar", "./b/c"), Some("b/c".to_owned()));
    }

    #[test]
    fn a_tag_is_enough() {
        assert!(has_tag("localhost:5000/a/b:12", "12") && has_tag("a:b", "a:b"));
        assert!(!has_tag("a:b", "a") && !has_tag("a", "a:latest"));
    }

    #[test]
    fn names_with_and_without_dockers_registry_are_the_same() {
        assert!(has_tag("docker.io/site/web:2", "site/web:2"));
        assert!(has_tag("docker.io/library/debian:12", "debian:12"));
        assert!(has_tag("site/web:2", "docker.io/site/web:2"));
        assert!(!has_tag("quay.io/site/web:2", "site/web:2"));
    }
}
