// SPDX-License-Identifier: GPL-2.0-only
//! Which nodes of a stack lie on which, directly or not.
//!
//! Computed once for each node, from earlier nodes. In a hostile image a node may reach another one
//! by 2 to the 1000th ways: following them all would never end.

/// Nodes are numbered in the order of [`Ancestry::push`].
#[derive(Debug, Default)]
pub struct Ancestry {
    nodes: Vec<NodeAncestors>,
}

#[derive(Debug)]
struct NodeAncestors {
    /// One bit for each node below this one.
    below: Vec<u64>,
    /// The largest number of nodes between this one and a disk.
    height: usize,
}

impl Ancestry {
    /// Adds a node that lies directly on these earlier nodes.
    pub fn push(&mut self, directly_below: &[usize]) {
        let number = self.nodes.len();
        let mut below = vec![0; number.div_ceil(64)];
        let mut height = 0;
        for &lower in directly_below {
            let entry = &self.nodes[lower];
            for (bits, more) in below.iter_mut().zip(&entry.below) {
                *bits |= more;
            }
            below[lower / 64] |= 1 << (lower % 64);
            height = height.max(entry.height + 1);
        }
        self.nodes.push(NodeAncestors { below, height });
    }

    pub fn is_above(&self, upper: usize, lower: usize) -> bool {
        let bits = self.nodes[upper].below.get(lower / 64);
        bits.is_some_and(|bits| bits >> (lower % 64) & 1 == 1)
    }

    pub fn height(&self, node: usize) -> usize {
        self.nodes[node].height
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_ways_lead() {
        let mut ancestry = Ancestry::default();
        for below in [vec![], vec![0], vec![0], vec![1, 2], vec![], vec![3, 4]] {
            ancestry.push(&below);
        }
        assert!(ancestry.is_above(5, 0) && ancestry.is_above(5, 4) && ancestry.is_above(3, 2));
        assert!(!ancestry.is_above(3, 4) && !ancestry.is_above(0, 5) && !ancestry.is_above(2, 2));
        assert_eq!(
            [0, 1, 3, 4, 5].map(|node| ancestry.height(node)),
            [0, 1, 2, 0, 3]
        );
    }

    /// Each layer is an array of two partitions of the layer below: 2 to the 1000th ways.
    #[test]
    fn many_ways_take_no_time() {
        let mut ancestry = Ancestry::default();
        ancestry.push(&[]);
        let mut top = 0;
        for _ in 0..1000 {
            ancestry.push(&[top]);
            ancestry.push(&[top]);
            ancestry.push(&[top + 1, top + 2]);
            top += 3;
        }
        assert!(ancestry.is_above(top, 0) && ancestry.is_above(top, 64));
        assert_eq!(ancestry.height(top), 2000);
    }
}
