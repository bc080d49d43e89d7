//! Quorum systems: who asks whom, so that any two who ask have somebody in common.
//!
//! ```text
//!   grid of 9: row and column                plane of 7 (Fano): lines through 7 points
//!
//!   0 1 2     quorum of 4:                   quorum of i: i, i + 1, i + 3 modulo 7
//!   3 4 5     3 4 5 and 1 7                  two lines meet in exactly one point
//!   6 7 8
//! ```
//!
//! A quorum is worked out from its rule whenever it is needed and stored nowhere. Processes are meant by their place
//! in the group, counted from 0.

/// A family of sets of processes, one for each process and containing it, of which any two meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quorums {
    /// Row and column of a square, row by row; the last row may be incomplete.
    Grid {
        /// How many processes there are.
        n: usize,
        /// How many stand in a row.
        columns: usize,
    },
    /// A line of a finite projective plane.
    Plane {
        /// How many processes there are.
        n: usize,
        /// The line through process 0; that of process `i` is the same, moved on by `i`.
        line: &'static [usize],
    },
}

/// For each size that has a plane here, a perfect difference set: every number below the size except 0 is the
/// difference of exactly one pair, modulo the size (Singer 1938). Hence any two lines meet in one point.
const PLANES: &[(usize, &[usize])] = &[
    (3, &[0, 1]),
    (7, &[0, 1, 3]),
    (13, &[0, 1, 3, 9]),
    (21, &[0, 1, 4, 14, 16]),
    (31, &[0, 1, 3, 8, 12, 18]),
    (57, &[0, 1, 3, 13, 32, 36, 43, 52]),
    (73, &[0, 1, 3, 7, 15, 31, 36, 54, 63]),
];

impl Quorums {
    /// Rows and columns of a square of `n`.
    ///
    /// They meet although the last row may be incomplete: of two processes in different rows, at least one has a
    /// complete row, and the column of the other crosses it.
    #[must_use]
    pub fn grid(n: usize) -> Self {
        let root = n.isqrt();
        Self::Grid { n, columns: if root * root == n { root.max(1) } else { root + 1 } }
    }

    /// The lines of a projective plane of `n` points, if one is known here.
    #[must_use]
    pub fn plane(n: usize) -> Option<Self> {
        PLANES.iter().find(|(size, _)| *size == n).map(|(n, line)| Self::Plane { n: *n, line })
    }

    /// The sizes for which there is a plane.
    pub fn plane_sizes() -> impl Iterator<Item = usize> {
        PLANES.iter().map(|(size, _)| *size)
    }

    /// How many are in the quorum of a process.
    #[must_use]
    pub fn size(&self, place: usize) -> usize {
        match *self {
            // The process itself stands in its row and in its column.
            Self::Grid { n, columns } => row_len(n, columns, place) + column_len(n, columns, place) - 1,
            Self::Plane { line, .. } => line.len(),
        }
    }

    /// One member of the quorum of a process.
    ///
    /// # Panics
    /// If `k` is not smaller than the quorum.
    #[must_use]
    pub fn member(&self, place: usize, k: usize) -> usize {
        assert!(k < self.size(place), "a quorum has no more members than its size");
        match *self {
            Self::Grid { n, columns } => {
                let (row, column) = (place / columns, place % columns);
                match k.checked_sub(row_len(n, columns, place)) {
                    None => row * columns + k,
                    Some(above) if above < row => above * columns + column,
                    Some(below) => (below + 1) * columns + column,
                }
            }
            Self::Plane { n, line } => (place + line[k]) % n,
        }
    }

    /// The quorum of a process.
    pub fn of(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.size(place)).map(move |k| self.member(place, k))
    }

    /// Whether a process is in the quorum of another.
    #[must_use]
    pub fn contains(&self, place: usize, other: usize) -> bool {
        match *self {
            Self::Grid { columns, .. } => {
                place / columns == other / columns || place % columns == other % columns
            }
            Self::Plane { .. } => self.of(place).any(|member| member == other),
        }
    }

    /// How many processes there are.
    #[must_use]
    pub fn processes(&self) -> usize {
        match *self {
            Self::Grid { n, .. } | Self::Plane { n, .. } => n,
        }
    }

    /// Whether any two quorums have somebody in common and everybody is in its own: what safety rests on.
    #[must_use]
    pub fn all_meet(&self) -> bool {
        let n = self.processes();
        (0..n)
            .all(|a| self.contains(a, a) && (0..a).all(|b| self.of(a).any(|member| self.contains(b, member))))
    }
}

fn row_len(n: usize, columns: usize, place: usize) -> usize {
    columns.min(n - place / columns * columns)
}

fn column_len(n: usize, columns: usize, place: usize) -> usize {
    (n - place % columns).div_ceil(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The listing and the test for membership agree, and nobody is listed twice.
    fn assert_sound(quorums: &Quorums) {
        let n = quorums.processes();
        for place in 0..n {
            let mut listed: Vec<_> = quorums.of(place).collect();
            listed.sort_unstable();
            assert!(listed.iter().copied().eq((0..n).filter(|other| quorums.contains(place, *other))));
        }
        assert!(quorums.all_meet());
    }

    #[test]
    fn grids_of_any_size_meet() {
        for n in 1..=150 {
            assert_sound(&Quorums::grid(n));
        }
    }

    #[test]
    fn square_grids_have_two_roots_less_one() {
        for root in 1..=12 {
            let grid = Quorums::grid(root * root);
            assert!((0..root * root).all(|place| grid.size(place) == 2 * root - 1));
        }
    }

    #[test]
    fn lines_of_a_plane_meet_in_one_point() {
        for n in Quorums::plane_sizes() {
            let plane = Quorums::plane(n).expect("a listed size has a plane");
            assert_sound(&plane);
            let k = plane.size(0);
            assert_eq!(n, k * (k - 1) + 1);
            for other in 1..n {
                assert_eq!(plane.of(0).filter(|member| plane.contains(other, *member)).count(), 1);
            }
        }
    }

    #[test]
    fn most_sizes_have_no_plane() {
        assert!([1, 2, 4, 5, 6, 8, 9, 43].into_iter().all(|n| Quorums::plane(n).is_none()));
    }
}
