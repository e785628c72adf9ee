// SPDX-License-Identifier: GPL-2.0-only
//! How an image is opened.

use crate::container_image::ContainerImage;
use std::path::PathBuf;

/// How images may be opened.
#[derive(Clone, Debug, Default)]
pub struct ImageOptions {
    /// Everything is a raw disk, whatever it looks like.
    pub raw: bool,
    /// Backing files that are allowed wherever they are.
    pub backing: Vec<PathBuf>,
    /// Nothing is written, so that no change that was cut off is undone.
    pub read_only: bool,
    /// Images of containers that are ready.
    pub container_images: Vec<ContainerImage>,
}
