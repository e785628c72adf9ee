// SPDX-License-Identifier: GPL-2.0-only
//! How a lab runs, apart from its topology.

use std::path::PathBuf;

#[derive(Clone, Debug, Default)]
pub struct LabSettings {
    /// The directory of kernel snapshots.
    pub snapshots: Option<PathBuf>,
    /// The directory for files of captured frames.
    pub captures: Option<PathBuf>,
    /// Netem is seeded, and no node asks for addresses of neighbours.
    pub is_deterministic: bool,
    /// The directory of the links' files. The lab replaces it.
    #[doc(hidden)]
    pub directory: PathBuf,
}
