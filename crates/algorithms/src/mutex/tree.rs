//! Trees of processes: who is whose parent, and all that follows from it.
//!
//! ```text
//!   balanced, two children each     chain, one child each     star, everyone a child of the root
//!
//!            0                       0 ─ 1 ─ 2 ─ 3 ─ 4                   0
//!         ┌──┴──┐                                                  ┌───┬─┴─┬───┐
//!         1     2                                                  1   2   3   4
//!       ┌─┴─┐
//!       3   4
//! ```
//!
//! These three are one rule, the parent of place `i` is `(i - 1) / k`, with different `k`; nothing is stored for them,
//! however many processes there are. All other trees are a table of parents. Processes are meant by their place in the
//! group, counted from 0.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use conclave_core::{Members, NodeId};

/// A tree in which every process has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    n: usize,
    shape: Shape,
    diameter: u32,
    total: u128,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// The parent of place `i` is `(i - 1) / arity`; the root is at place 0.
    Rule { arity: usize },
    /// The parent of each place; the root is its own. With the names of those who stand there.
    Table { parents: Box<[u32]>, root: usize, members: Members },
}

/// More children than anyone has.
const STAR: usize = u32::MAX as usize;

impl Tree {
    /// Everyone has up to `arity` children, and all levels but the last are full.
    ///
    /// # Panics
    /// If `arity` is 0.
    #[must_use]
    pub fn balanced(n: usize, arity: usize) -> Self {
        assert!(arity > 0, "a tree without children is no tree");
        Self::measured(n, Shape::Rule { arity })
    }

    /// One behind the other.
    #[must_use]
    pub fn chain(n: usize) -> Self {
        Self::balanced(n, 1)
    }

    /// Everyone is a child of the first.
    #[must_use]
    pub fn star(n: usize) -> Self {
        Self::balanced(n, STAR)
    }

    /// A random recursive tree: everyone but the first is a child of one of those before it, each as likely as the
    /// others. Its height is about e·ln n, the mean distance in it about 2·ln n − 3.
    #[must_use]
    pub fn random(members: &Members, seed: u64) -> Self {
        let parent = |place: usize| {
            let below = u128::from(mixed(seed, place as u64)) * place as u128;
            (below >> 64) as u32
        };
        let parents = (0..members.len()).map(parent).collect();
        Self::measured(members.len(), Shape::Table { parents, root: 0, members: members.clone() })
    }

    /// The tree in which everyone but the root has the parent that is given for it.
    ///
    /// # Errors
    /// In a sentence, if that is no tree of these processes.
    pub fn given(members: &Members, parents: &BTreeMap<NodeId, u64>) -> Result<Self, String> {
        let place = |id: u64| u32::try_from(id).ok().and_then(|id| members.position(NodeId(id)));
        let mut table: Vec<u32> = (0..members.len() as u32).collect();
        for (child, parent) in parents {
            let at = members.position(*child).ok_or_else(|| format!("{child} is not a member"))?;
            let parent = place(*parent).ok_or_else(|| format!("p{parent} is not a member"))?;
            if at == parent {
                return Err(format!("{child} cannot be its own parent"));
            }
            table[at] = parent as u32;
        }
        let orphans: Vec<_> = members.iter().filter(|id| !parents.contains_key(id)).collect();
        let root = match *orphans {
            [root] => members.position(root).unwrap_or(0),
            [] => return Err("one process must have no parent, the root".to_string()),
            [first, second, ..] => {
                let sentence = "only one process, the root, may have no parent";
                return Err(format!("{first} and {second} have none, and {sentence}"));
            }
        };
        let shape = Shape::Table { parents: table.into(), root, members: members.clone() };
        let tree = Self { n: members.len(), shape, diameter: 0, total: 0 };
        // Whoever is never reached from below has somebody below it that is also above it.
        let reached = tree.bottom_up();
        if reached.len() < tree.n {
            let lost = (0..tree.n).find(|place| !reached.contains(&(*place as u32))).unwrap_or(0);
            return Err(format!("{} would be its own ancestor", members.at(lost)));
        }
        Ok(Self::measured(tree.n, tree.shape))
    }

    /// The tree of the same kind over other members. Where a rule makes the tree, it makes the new one; in a table
    /// everyone goes to its nearest ancestor that is left, and of those that have none all go to the smallest.
    #[must_use]
    pub fn over(&self, members: &Members) -> Self {
        let Shape::Table { members: old, .. } = &self.shape else {
            return Self::measured(members.len(), self.shape.clone());
        };
        let ancestor = |id: NodeId| {
            let above = core::iter::successors(old.position(id), |place| self.parent(*place));
            above.skip(1).find_map(|place| members.position(old.at(place)))
        };
        let found: Vec<_> = members.iter().map(ancestor).collect();
        let roots = members.iter().zip(&found).filter(|(_, found)| found.is_none());
        let root = roots.map(|(id, _)| id).min().and_then(|id| members.position(id)).unwrap_or(0);
        let parents = found.iter().map(|found| found.unwrap_or(root) as u32).collect();
        Self::measured(members.len(), Shape::Table { parents, root, members: members.clone() })
    }

    /// Works out once what it would cost to work out again and again.
    fn measured(n: usize, shape: Shape) -> Self {
        let mut tree = Self { n, shape, diameter: 0, total: 0 };
        let (mut size, mut height) = (vec![1u32; n], vec![0u32; n]);
        for place in tree.bottom_up() {
            let Some(parent) = tree.parent(place as usize) else { continue };
            let (below, up) = (size[place as usize], height[place as usize] + 1);
            // The edge above a place lies between those below it and all others.
            tree.total += u128::from(below) * (n as u128 - u128::from(below));
            size[parent] += below;
            tree.diameter = tree.diameter.max(height[parent] + up);
            height[parent] = height[parent].max(up);
        }
        tree
    }

    /// All places, everyone before its parent.
    fn bottom_up(&self) -> Vec<u32> {
        let mut children = vec![0u32; self.n];
        (0..self.n).filter_map(|place| self.parent(place)).for_each(|parent| children[parent] += 1);
        let mut order: Vec<u32> = (0..self.n as u32).filter(|place| children[*place as usize] == 0).collect();
        let mut next = 0;
        while let Some(place) = order.get(next) {
            next += 1;
            let Some(parent) = self.parent(*place as usize) else { continue };
            children[parent] -= 1;
            if children[parent] == 0 {
                order.push(parent as u32);
            }
        }
        order
    }

    /// The place of the root.
    #[inline]
    #[must_use]
    pub fn root(&self) -> usize {
        match &self.shape {
            Shape::Rule { .. } => 0,
            Shape::Table { root, .. } => *root,
        }
    }

    /// The parent of everyone but the root.
    #[inline]
    #[must_use]
    pub fn parent(&self, place: usize) -> Option<usize> {
        match &self.shape {
            Shape::Rule { arity } => place.checked_sub(1).map(|before| before / arity),
            Shape::Table { parents, root, .. } => (place != *root).then(|| parents[place] as usize),
        }
    }

    /// Whether two places are joined by an edge.
    #[inline]
    #[must_use]
    pub fn are_neighbours(&self, a: usize, b: usize) -> bool {
        self.parent(a) == Some(b) || self.parent(b) == Some(a)
    }

    /// The neighbours of a place: its parent, then its children.
    #[must_use]
    pub fn neighbours(&self, place: usize) -> Vec<usize> {
        let children = match &self.shape {
            Shape::Rule { arity } => {
                let first = place.saturating_mul(*arity).saturating_add(1);
                first.min(self.n)..first.saturating_add(*arity).min(self.n)
            }
            Shape::Table { .. } => 0..self.n,
        };
        self.parent(place)
            .into_iter()
            .chain(children.filter(|child| self.parent(*child) == Some(place)))
            .collect()
    }

    /// The neighbour of one place on the way to another; the place itself if it is there already.
    #[must_use]
    pub fn hop(&self, from: usize, to: usize) -> usize {
        match &self.shape {
            _ if from == to => from,
            // Climbing up a long chain would take long.
            Shape::Rule { arity: 1 } => {
                if to > from {
                    from + 1
                } else {
                    from - 1
                }
            }
            _ => {
                let up = core::iter::successors(Some(to), |place| self.parent(*place));
                let child = up.into_iter().find(|place| self.parent(*place) == Some(from));
                child.or(self.parent(from)).unwrap_or(from)
            }
        }
    }

    /// How many edges lie between two places.
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let mut way = core::iter::successors(Some(from), |place| Some(self.hop(*place, to)));
        way.position(|place| place == to).unwrap_or(0) as u32
    }

    /// How many edges lie between the two places that are farthest from each other.
    #[must_use]
    pub fn diameter(&self) -> u32 {
        self.diameter
    }

    /// How many edges lie between two different places, on average over all pairs.
    ///
    /// Exact: an edge that has s places on one side is between s(n - s) pairs, and the sum over all edges is that over
    /// all pairs.
    #[must_use]
    pub fn mean_distance(&self) -> f64 {
        let n = self.n as f64;
        if self.n < 2 { 0.0 } else { self.total as f64 / (n * (n - 1.0) / 2.0) }
    }
}

impl Hash for Tree {
    /// Hashes little: within a run all values are the same one, and equality tells the rest apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.n.hash(state);
    }
}

/// The random number of a place, which a seed brings back (SplitMix64).
fn mixed(seed: u64, place: u64) -> u64 {
    let state = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Dice;

    fn given(n: u32, pairs: &[(u32, u64)]) -> Result<Tree, String> {
        let parents = pairs.iter().map(|(child, parent)| (NodeId(*child), *parent)).collect();
        Tree::given(&Members::numbered(n), &parents)
    }

    /// All shapes of a size.
    fn shapes(n: usize) -> Vec<Tree> {
        let members = Members::numbered(n as u32);
        let mut trees = vec![Tree::chain(n), Tree::star(n), Tree::balanced(n, 2), Tree::balanced(n, 3)];
        trees.extend((0..5).map(|seed| Tree::random(&members, seed)));
        // A chain that is not in the order of its places, from the last to the first.
        if n > 1 {
            let pairs: Vec<_> = (1..n as u32).map(|id| (id, u64::from(id) + 1)).collect();
            trees.push(given(n as u32, &pairs).expect("a chain is a tree"));
        }
        trees
    }

    /// Distances by walking from a place over all edges, knowing nothing but who are neighbours.
    fn walked(tree: &Tree, from: usize) -> Vec<u32> {
        let mut distance = vec![u32::MAX; tree.n];
        distance[from] = 0;
        let mut reached = vec![from];
        while let Some(place) = reached.pop() {
            for other in (0..tree.n).filter(|other| tree.are_neighbours(place, *other)) {
                if distance[other] == u32::MAX {
                    distance[other] = distance[place] + 1;
                    reached.push(other);
                }
            }
        }
        distance
    }

    #[test]
    fn everything_follows_from_the_parents() {
        for n in 1..=20 {
            for tree in shapes(n) {
                assert_eq!(tree.parent(tree.root()), None);
                let all: Vec<_> = (0..n).map(|place| walked(&tree, place)).collect();
                assert!(all.iter().flatten().all(|distance| *distance != u32::MAX), "{tree:?}");
                let (mut farthest, mut sum) = (0, 0);
                for (from, distances) in all.iter().enumerate() {
                    let mut neighbours = tree.neighbours(from);
                    neighbours.sort_unstable();
                    assert!(neighbours.into_iter().eq((0..n).filter(|to| distances[*to] == 1)), "{tree:?}");
                    for (to, distance) in distances.iter().enumerate() {
                        assert_eq!(tree.distance(from, to), *distance, "{tree:?} {from} {to}");
                        let hop = tree.hop(from, to);
                        assert_eq!(all[to][hop], distance.saturating_sub(1), "{tree:?} {from} {to}");
                        farthest = farthest.max(*distance);
                        sum += distance;
                    }
                }
                assert_eq!(tree.diameter(), farthest, "{tree:?}");
                let mean = if n > 1 { f64::from(sum) / (n * (n - 1)) as f64 } else { 0.0 };
                assert!((tree.mean_distance() - mean).abs() < 1e-9, "{tree:?}: {mean}");
            }
        }
    }

    #[test]
    fn diameters_of_the_rules() {
        for n in 2..=100 {
            assert_eq!(Tree::chain(n).diameter() as usize, n - 1);
            assert_eq!(Tree::star(n).diameter(), if n == 2 { 1 } else { 2 });
        }
        assert_eq!(Tree::balanced(1_000_000, 2).diameter(), 38);
        // Of a chain the mean is known: a third of n + 1.
        assert!((Tree::chain(1_000_000).mean_distance() - 1_000_001.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_seed_brings_a_random_tree_back() {
        let members = Members::numbered(1_000);
        assert_eq!(Tree::random(&members, 7), Tree::random(&members, 7));
        assert_ne!(Tree::random(&members, 7), Tree::random(&members, 8));
        // As likely one as the other: half of the places have their parent in the first half of those before.
        let tree = Tree::random(&members, 7);
        let early = (2..1_000).filter(|place| tree.parent(*place).is_some_and(|p| 2 * p < *place)).count();
        assert!((450..550).contains(&early), "{early}");
    }

    #[test]
    fn what_is_no_tree_is_refused_in_a_sentence() {
        let why = |n, pairs: &[(u32, u64)]| given(n, pairs).expect_err("no tree");
        assert_eq!(why(3, &[(2, 1), (3, 9)]), "p9 is not a member");
        assert_eq!(why(3, &[(2, 1), (3, u64::MAX)]), format!("p{} is not a member", u64::MAX));
        assert_eq!(why(3, &[(2, 1), (7, 1)]), "p7 is not a member");
        assert_eq!(why(3, &[(2, 1), (3, 3)]), "p3 cannot be its own parent");
        assert_eq!(why(3, &[(1, 2), (2, 3), (3, 1)]), "one process must have no parent, the root");
        let two = "p1 and p3 have none, and only one process, the root, may have no parent";
        assert_eq!(why(3, &[(2, 1)]), two);
        assert_eq!(why(4, &[(2, 3), (3, 4), (4, 2)]), "p2 would be its own ancestor");
    }

    /// Survivors stay below their nearest ancestor that is left.
    #[test]
    fn a_tree_closes_over_those_who_are_gone() {
        //        3                    p3 and p5 go:       1
        //     ┌──┴──┐                                   ┌─┼─┐
        //     1     5                                   2 4 7      p4 and p7 had no other ancestor
        //     │   ┌─┴─┐                                   │
        //     2   4   7                                   6
        //         │
        //         6
        let tree = given(7, &[(1, 3), (5, 3), (2, 1), (4, 5), (7, 5), (6, 4)]).expect("a tree");
        let left = Members::listed([1, 2, 4, 6, 7].map(NodeId));
        let over = tree.over(&left);
        let parent = |id| {
            let place = left.position(NodeId(id)).expect("a member");
            over.parent(place).map(|place| left.at(place).0)
        };
        assert_eq!([1, 2, 4, 6, 7].map(parent), [None, Some(1), Some(1), Some(4), Some(1)]);
        assert_eq!(over.diameter(), 3);
        assert_eq!(Tree::balanced(7, 2).over(&left), Tree::balanced(5, 2));
    }

    /// Whoever leaves and whoever comes, what is left is a tree.
    #[test]
    fn a_tree_stays_a_tree() {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let tree = Tree::random(&Members::numbered(12), seed);
            let mut ids: Vec<_> = (1..=15).filter(|_| dice.below(2) == 0).map(NodeId).collect();
            ids.push(NodeId(20));
            let over = tree.over(&Members::listed(ids));
            assert_eq!(over.bottom_up().len(), over.n);
            assert!(walked(&over, 0).iter().all(|distance| *distance != u32::MAX), "seed {seed}");
        }
    }
}
