// SPDX-License-Identifier: GPL-2.0-only
//! The documents of an image of a container, in JSON: of the OCI's image specification, and of
//! archives of `docker save`. Members that nobody needs here are left out.

use super::digest::BlobDigest;
use outboard_error::format::escaped;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most bytes of a document: the specification says so of manifests.
pub(super) const MOST: u64 = 4 << 20;
/// Most layers of an image.
pub(super) const MOST_LAYERS: usize = 500;

/// A part of an image: its type, name and size.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartDescriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default)]
    pub(super) urls: Option<Vec<String>>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) platform: Option<Platform>,
}

/// What a manifest's programs run on.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
}

/// A list of manifests.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub(super) manifests: Vec<PartDescriptor>,
}

/// The parts of one image.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) config: PartDescriptor,
    #[serde(default)]
    pub(super) layers: Vec<PartDescriptor>,
}

/// An image in an archive of `docker save`: names of members.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerManifest {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Vec<String>,
}

/// The configuration of an image.
#[derive(Debug, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) config: Option<RunConfig>,
    pub(super) rootfs: RootFs,
}

/// How the program of an image is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct RunConfig {
    pub(super) user: Option<String>,
    pub(super) env: Option<Vec<String>>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) cmd: Option<Vec<String>>,
    pub(super) working_dir: Option<String>,
    pub(super) stop_signal: Option<String>,
}

/// The digests of the layers without compression.
#[derive(Debug, Deserialize)]
pub(super) struct RootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<String>,
}

impl ImageConfig {
    /// The digests of the layers. An error says what is wrong with them.
    pub(super) fn layer_digests(&self, layers: usize) -> Result<Vec<BlobDigest>, String> {
        let ids = &self.rootfs.diff_ids;
        if ids.len() != layers {
            let known = ids.len();
            return Err(format!(
                "its configuration has {known} layers, its manifest {layers}"
            ));
        }
        let parse = |id: &String| {
            let shown = escaped(id.as_bytes());
            BlobDigest::parse(id).ok_or_else(|| format!("{shown} is no digest by sha256"))
        };
        ids.iter().map(parse).collect()
    }
}

/// Reads a document. An error is a sentence without the document's name.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("its JSON makes no sense: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_null_is_not_there() {
        let text = r#"{"config": {"Env": null, "Cmd": ["a"]}, "rootfs": {"diff_ids": []}}"#;
        let config: ImageConfig = parse(text.as_bytes()).unwrap();
        let run = config.config.unwrap();
        assert_eq!((run.env, run.cmd), (None, Some(vec!["a".to_owned()])));
        assert!(parse::<ImageConfig>(b"{").is_err());
        let deep = "[".repeat(100_000);
        assert!(parse::<Index>(format!(r#"{{"manifests": {deep}"#).as_bytes()).is_err());
    }

    #[test]
    fn layers_are_counted() {
        let text = r#"{"rootfs": {"diff_ids": ["sha256:1"]}}"#;
        let config: ImageConfig = parse(text.as_bytes()).unwrap();
        assert!(config.layer_digests(2).unwrap_err().contains("1 layers"));
        assert!(config.layer_digests(1).unwrap_err().contains("no digest"));
    }
}
