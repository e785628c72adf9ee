// SPDX-License-Identifier: GPL-2.0-only
//! Names side by side, as ls shows them on a terminal: they go down the columns.

use std::io;
use terminal_size::{terminal_size_of, Width};
use unicode_width::UnicodeWidthStr;

/// Columns of a terminal that does not say how many it has.
const USUAL: usize = 80;
/// Blanks between two columns.
const GAP: usize = 2;

/// Columns of the terminal: as the environment's COLUMNS says, or the terminal itself.
pub fn terminal_width() -> usize {
    let said = std::env::var("COLUMNS").ok();
    let said = said
        .and_then(|text| text.parse().ok())
        .filter(|&width| width > 0);
    let found = || terminal_size_of(io::stdout()).map(|(Width(width), _)| width.into());
    said.or_else(found)
        .filter(|&width| width > 0)
        .unwrap_or(USUAL)
}

/// How many columns of a terminal a name takes.
pub fn width(name: &[u8]) -> usize {
    String::from_utf8_lossy(name).width()
}

/// Which names stand in each line, and how wide each column is without the gap after it.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnLayout {
    pub lines: usize,
    pub widths: Vec<usize>,
}

impl ColumnLayout {
    /// The widest columns that fit; one if none do.
    pub fn of(names: &[usize], width: usize) -> Self {
        let narrowest = names.iter().min().map_or(1, |name| name + GAP);
        let most = ((width + GAP) / narrowest).clamp(1, names.len().max(1));
        for columns in (2..=most).rev() {
            let lines = names.len().div_ceil(columns);
            let widths: Vec<usize> = names
                .chunks(lines)
                .map(|column| column.iter().copied().max().unwrap_or(0))
                .collect();
            let all = widths.iter().map(|width| width + GAP).sum::<usize>();
            if all <= width + GAP {
                return Self { lines, widths };
            }
        }
        let widest = names.iter().copied().max().unwrap_or(0);
        Self {
            lines: names.len(),
            widths: vec![widest],
        }
    }

    /// The names of a line: their indexes, and the blanks after each.
    pub fn line<'a>(
        &'a self,
        names: &'a [usize],
        line: usize,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let indexes = (line..names.len()).step_by(self.lines.max(1));
        indexes.zip(&self.widths).map(move |(index, width)| {
            let is_last = index + self.lines >= names.len();
            let gap = width.saturating_sub(names[index]) + GAP;
            (index, if is_last { 0 } else { gap })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(names: &[&str], width: usize) -> Vec<String> {
        let sizes: Vec<usize> = names
            .iter()
            .map(|name| super::width(name.as_bytes()))
            .collect();
        let layout = ColumnLayout::of(&sizes, width);
        let line = |line| {
            let parts = layout.line(&sizes, line);
            parts
                .map(|(index, gap)| format!("{}{}", names[index], " ".repeat(gap)))
                .collect()
        };
        (0..layout.lines).map(line).collect()
    }

    #[test]
    fn names_go_down_the_columns() {
        let names = ["a", "bb", "ccc", "d", "e"];
        assert_eq!(lines(&names, 80), ["a  bb  ccc  d  e"]);
        assert_eq!(lines(&names, 11), ["a   ccc  e", "bb  d"]);
        assert_eq!(lines(&names, 10), ["a   ccc  e", "bb  d"]);
        assert_eq!(lines(&names, 9), ["a    d", "bb   e", "ccc"]);
        assert_eq!(lines(&names, 1), names);
        assert_eq!(lines(&["\u{4e2d}", "x", "y"], 5), ["\u{4e2d}  y", "x"]);
        assert!(lines(&[], 80).is_empty());
    }
}
