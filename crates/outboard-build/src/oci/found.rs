// SPDX-License-Identifier: GPL-2.0-only
//! An image of a container as its documents describe it, before its layers are read.

use super::digest::BlobDigest;
use super::documents::{ImageConfig, RunConfig};
use super::section::FileSection;
use super::stop_signal;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::container_image::RunDefaults;
use std::ffi::OsString;

/// The platform whose programs the kernel runs.
pub(super) const ARCHITECTURE: &str = "amd64";
pub(super) const OS: &str = "linux";

/// A layer: an archive, which may be compressed.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) bytes: FileSection,
    /// Of its bytes as they are stored; `None`: only those without compression are known.
    pub(super) stored: Option<BlobDigest>,
    /// Of its bytes without compression.
    pub(super) plain: BlobDigest,
}

#[derive(Debug)]
pub(super) struct FoundImage {
    /// For messages.
    pub(super) shown: String,
    /// The digest of its configuration, which names the layers.
    pub(super) identity: BlobDigest,
    /// The first one is the lowest.
    pub(super) layers: Vec<Layer>,
    pub(super) defaults: RunDefaults,
}

/// An error about an image that is not as it should be.
pub(super) fn damaged(shown: &str, why: impl AsRef<str>) -> Error {
    Error::known(ErrorKind::Damaged, format!("{shown}: {}", why.as_ref()))
}

/// An error about an image that cannot be used here.
pub(super) fn unsupported(shown: &str, why: impl AsRef<str>) -> Error {
    Error::known(ErrorKind::Unsupported, format!("{shown}: {}", why.as_ref()))
}

/// Refuses a configuration for other machines.
pub(super) fn check_platform(shown: &str, config: &ImageConfig) -> Result<()> {
    let (architecture, os) = (config.architecture.as_str(), config.os.as_str());
    if (architecture, os) == (ARCHITECTURE, OS) {
        return Ok(());
    }
    let why = format!(
        "its programs are for {os:?} on {architecture:?}: only those for {OS} on {ARCHITECTURE} \
         are run"
    );
    Err(unsupported(shown, why))
}

/// How the program of an image is run.
pub(super) fn defaults(shown: &str, config: Option<RunConfig>) -> Result<RunDefaults> {
    let config = config.unwrap_or_default();
    let words = |list: Option<Vec<String>>| {
        let list = list.unwrap_or_default();
        list.into_iter().map(OsString::from).collect::<Vec<_>>()
    };
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let variable = |text: String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Some((name.into(), value.into())),
        _ => None,
    };
    let signal = match given(config.stop_signal) {
        None => None,
        Some(text) => Some(
            stop_signal::number(&text)
                .ok_or_else(|| damaged(shown, format!("its StopSignal, {text:?}, is no signal")))?,
        ),
    };
    let texts = [&config.entrypoint, &config.cmd, &config.env];
    let has_nul = |text: &String| text.contains('\0');
    if texts.into_iter().flatten().flatten().any(has_nul) {
        return Err(damaged(
            shown,
            "a word of its command or environment has a NUL in it",
        ));
    }
    let environment = config.env.unwrap_or_default().into_iter();
    Ok(RunDefaults {
        environment: environment.filter_map(variable).collect(),
        entry_point: words(config.entrypoint),
        command: words(config.cmd),
        user: given(config.user).map(OsString::from),
        directory: given(config.working_dir).map(OsString::from),
        stop_signal: signal,
    })
}
