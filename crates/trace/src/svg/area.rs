//! Rectangles and lines, and where they are: enough geometry to put text where nothing else is.

use std::collections::BTreeMap;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Right edge.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    #[must_use]
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// Whether the two share more than an edge.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    pub(super) fn centre(&self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }
}

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
}

impl Line {
    /// The point at this part of the way.
    pub(super) fn at(&self, part: f64) -> (f64, f64) {
        let ((x1, y1), (x2, y2)) = (self.from, self.to);
        (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part)
    }

    /// How far it goes to the right for every step down.
    pub(super) fn slope(&self) -> f64 {
        let height = self.to.1 - self.from.1;
        if height.abs() < 1e-9 { 0.0 } else { (self.to.0 - self.from.0) / height }
    }

    pub(super) fn x_at(&self, y: f64) -> f64 {
        self.from.0 + (y - self.from.1) * self.slope()
    }

    /// Whether some of it lies inside (Liang and Barsky).
    fn crosses(&self, area: &Area) -> bool {
        let (dx, dy) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        let edges = [
            (-dx, self.from.0 - area.x),
            (dx, area.right() - self.from.0),
            (-dy, self.from.1 - area.y),
            (dy, area.bottom() - self.from.1),
        ];
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (step, room) in edges {
            if step == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if step < 0.0 {
                enter = enter.max(room / step);
            } else {
                leave = leave.min(room / step);
            }
        }
        enter < leave
    }
}

const CELL: f64 = 64.0;
/// A line that runs across a whole long drawing is looked up only near its beginning.
const MOST_CELLS: i64 = 400;

type Cell = (i64, i64);

fn cell(at: f64) -> i64 {
    (at / CELL).floor() as i64
}

fn cells(area: &Area) -> impl Iterator<Item = Cell> {
    let (rows, right) = (cell(area.y)..=cell(area.bottom()), cell(area.right()));
    let left = cell(area.x);
    rows.flat_map(move |row| (left..=right).map(move |column| (column, row)))
}

/// What is already drawn, sorted into squares: looking for a free place takes no longer in a large drawing.
#[derive(Default)]
pub(super) struct Grid {
    areas: BTreeMap<Cell, Vec<Area>>,
    lines: BTreeMap<Cell, Vec<(usize, Line)>>,
}

impl Grid {
    pub(super) fn add(&mut self, area: Area) {
        for cell in cells(&area) {
            self.areas.entry(cell).or_default().push(area);
        }
    }

    pub(super) fn add_line(&mut self, name: usize, line: Line) {
        let (left, right) =
            if line.from.0 <= line.to.0 { (line.from, line.to) } else { (line.to, line.from) };
        let last = cell(right.0).min(cell(left.0) + MOST_CELLS);
        for column in cell(left.0)..=last {
            // The part of the line inside this column of squares.
            let y_at = |x: f64| match right.0 - left.0 {
                width if width < 1e-9 => None,
                width => Some(left.1 + (right.1 - left.1) * ((x - left.0) / width).clamp(0.0, 1.0)),
            };
            let a = y_at(column as f64 * CELL).unwrap_or(left.1);
            let b = y_at((column + 1) as f64 * CELL).unwrap_or(right.1);
            for row in cell(a.min(b))..=cell(a.max(b)) {
                self.lines.entry((column, row)).or_default().push((name, line));
            }
        }
    }

    pub(super) fn is_free(&self, area: &Area) -> bool {
        cells(area).all(|cell| {
            self.areas.get(&cell).is_none_or(|taken| taken.iter().all(|other| !area.overlaps(other)))
        })
    }

    /// How many lines run through an area, one of them not counted.
    pub(super) fn crossings(&self, area: &Area, but: usize) -> usize {
        let mut met = Vec::new();
        for cell in cells(area) {
            for (name, line) in self.lines.get(&cell).into_iter().flatten() {
                if *name != but && !met.contains(name) && line.crosses(area) {
                    met.push(*name);
                }
            }
        }
        met.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area { x: 10.0, y: 10.0, width: 20.0, height: 10.0 };

    #[test]
    fn areas_that_touch_do_not_overlap() {
        let moved = |x: f64, y: f64| Area { x: AREA.x + x, y: AREA.y + y, ..AREA };
        assert!(AREA.overlaps(&moved(19.0, 9.0)));
        assert!(AREA.overlaps(&moved(-19.0, 0.0)));
        assert!(!AREA.overlaps(&moved(20.0, 0.0)));
        assert!(!AREA.overlaps(&moved(0.0, 10.0)));
        assert!(!AREA.overlaps(&moved(0.0, -10.0)));
    }

    #[test]
    fn lines_cross_areas() {
        let cases = [
            ((0.0, 0.0), (40.0, 30.0), true),
            ((0.0, 15.0), (100.0, 15.0), true),
            ((20.0, 0.0), (20.0, 100.0), true),
            ((15.0, 12.0), (16.0, 13.0), true),
            ((0.0, 0.0), (40.0, 5.0), false),
            ((0.0, 0.0), (5.0, 5.0), false),
            ((31.0, 0.0), (31.0, 40.0), false),
        ];
        for (from, to, expected) in cases {
            assert_eq!(Line { from, to }.crosses(&AREA), expected, "{from:?} {to:?}");
            assert_eq!(Line { from: to, to: from }.crosses(&AREA), expected, "{to:?} {from:?}");
        }
    }

    #[test]
    fn the_grid_finds_what_lies_across_squares() {
        let mut grid = Grid::default();
        grid.add(Area { x: -70.0, y: 60.0, width: 300.0, height: 10.0 });
        grid.add_line(1, Line { from: (0.0, 0.0), to: (500.0, 400.0) });
        grid.add_line(2, Line { from: (300.0, 400.0), to: (300.0, 0.0) });
        assert!(!grid.is_free(&Area { x: 200.0, y: 65.0, ..AREA }));
        assert!(grid.is_free(&Area { x: 200.0, y: 70.0, ..AREA }));
        let where_they_meet = Area { x: 290.0, y: 235.0, ..AREA };
        assert_eq!(grid.crossings(&where_they_meet, 0), 2);
        assert_eq!(grid.crossings(&where_they_meet, 2), 1);
        assert_eq!(grid.crossings(&Area { x: 400.0, y: 100.0, ..AREA }, 0), 0);
    }
}
