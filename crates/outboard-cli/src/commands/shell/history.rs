// SPDX-License-Identifier: GPL-2.0-only
//! The file in which the shell's lines are remembered. Nobody else may read it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The user's directory for what programs remember, as the XDG has it.
fn state_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))
}

/// Makes the file if there is none. `None`: there is no place for it.
pub fn file() -> Option<PathBuf> {
    let directory = state_directory(|name| std::env::var_os(name))?.join("outboard");
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .ok()?;
    let file = directory.join("history");
    private(&file).ok()?;
    Some(file)
}

fn private(file: &Path) -> std::io::Result<()> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600).open(file)?;
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories() {
        let of = |state: &str, home: &str| {
            state_directory(|name| {
                let value = if name == "HOME" { home } else { state };
                (!value.is_empty()).then(|| value.into())
            })
        };
        assert_eq!(of("/s", "/h"), Some("/s".into()));
        assert_eq!(of("relative", "/h"), Some("/h/.local/state".into()));
        assert_eq!(of("", ""), None);
    }
}
