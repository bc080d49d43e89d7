//! Plots: measured points over the curve of a formula, a panel for each series and one for all of them.

use crate::text::{columns, cut, escape_xml, put};

use super::{Theme, theme};

/// Measured numbers and what a formula gives for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// What is counted to the right.
    pub x: String,
    /// What is counted upwards.
    pub y: String,
    /// What was measured, series by series.
    pub series: Vec<Series>,
}

/// One series of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The formula in words.
    pub formula: String,
    /// What the formula gives.
    pub curve: Vec<Bounds>,
    /// What was measured.
    pub points: Vec<Spread>,
}

/// What a formula gives at a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Where.
    pub x: f64,
    /// At least.
    pub low: f64,
    /// At most, if there is a bound; the same number if the formula is exact.
    pub high: Option<f64>,
}

/// What was measured at a point, in one run or in several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Where.
    pub x: f64,
    /// The smallest.
    pub low: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub high: f64,
}

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 16.0;
/// The room for ticks: left of a panel and below it.
const LEFT: f64 = 46.0;
const BELOW: f64 = 26.0;
const TITLE: f64 = 15.0;
const TEXT: f64 = 11.0;
const SMALL: f64 = 9.5;
/// No usual fixed-width font is wider than this part of its height.
const LETTER: f64 = 0.62;
const PANELS_IN_A_ROW: usize = 3;
const PANEL_HEIGHT: f64 = 150.0;
const OVERVIEW_HEIGHT: f64 = 300.0;
/// The names beside the panel with all series.
const NAMES: f64 = 215.0;

impl Plot {
    /// Draws it as SVG.
    #[must_use]
    pub fn svg(&self, colours: Theme) -> String {
        let mut body = String::new();
        let mut y = MARGIN + TITLE;
        text(&mut body, "strong", (MARGIN, y), TITLE, "start", &self.title);
        y += 12.0;
        if self.series.len() > 1 {
            y = self.overview(y, &mut body);
        }
        let height = self.panels(y, &mut body);
        let mut out = String::new();
        put(
            &mut out,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ct\" role=\"img\" width=\"{WIDTH}\" \
                 height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<title>{}</title>\n<style>\n{}</style>\n\
                 <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
                escape_xml(&self.title),
                theme::style(colours)
            ),
        );
        out + &body + "</svg>\n"
    }

    /// All series in one panel, with a scale that shows small and large numbers alike; gives the place below.
    fn overview(&self, top: f64, out: &mut String) -> f64 {
        let area = Panel {
            left: MARGIN + LEFT,
            right: WIDTH - MARGIN - NAMES,
            top: top + 18.0,
            bottom: top + 18.0 + OVERVIEW_HEIGHT,
        };
        let scale = Scales::new(&area, &self.series.iter().collect::<Vec<_>>(), true);
        text(
            out,
            "legend",
            (MARGIN, top + 10.0),
            TEXT,
            "start",
            &format!("{}, all of them, on a logarithmic scale", self.y),
        );
        scale.axes(out, &self.x);
        for (kind, series) in self.series.iter().enumerate() {
            let way: Vec<_> = series.points.iter().map(|point| scale.at(point.x, point.mean)).collect();
            path(out, &format!("arrow k{}{}", theme::colour(kind), dash(kind)), &line(&way), &series.name);
            for at in way {
                path(out, &format!("head k{}", theme::colour(kind)), &mark(kind, at), &series.name);
            }
        }
        // The names stand in the order of the last points, so that lines and names are found together.
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        let last = |kind: &usize| self.series[*kind].points.last().map_or(0.0, |point| point.mean);
        order.sort_by(|a, b| last(b).total_cmp(&last(a)).then(a.cmp(b)));
        for (row, kind) in order.into_iter().enumerate() {
            let (x, y) = (area.right + 16.0, area.top + 10.0 + row as f64 * 17.0);
            let colour = theme::colour(kind);
            path(out, &format!("arrow k{colour}{}", dash(kind)), &line(&[(x, y), (x + 22.0, y)]), "");
            path(out, &format!("head k{colour}"), &mark(kind, (x + 11.0, y)), "");
            let name = cut(&self.series[kind].name, ((NAMES - 50.0) / (TEXT * LETTER)) as usize, "…");
            text(out, "legend", (x + 28.0, y + 4.0), TEXT, "start", &name);
        }
        area.bottom + BELOW + 18.0
    }

    /// A panel for each series; gives the height of the drawing.
    fn panels(&self, top: f64, out: &mut String) -> f64 {
        let width = (WIDTH - 2.0 * MARGIN) / PANELS_IN_A_ROW as f64;
        let height = 18.0 + 16.0 + PANEL_HEIGHT + BELOW + 14.0;
        for (kind, series) in self.series.iter().enumerate() {
            let (column, row) = (kind % PANELS_IN_A_ROW, kind / PANELS_IN_A_ROW);
            let (left, top) = (MARGIN + column as f64 * width, top + row as f64 * height);
            let room = ((width - 16.0) / (TEXT * LETTER)) as usize;
            text(out, "strong", (left, top + 12.0), TEXT, "start", &cut(&series.name, room, "…"));
            text(out, "stamp", (left, top + 27.0), SMALL, "start", &cut(&series.formula, room + 8, "…"));
            let area = Panel {
                left: left + LEFT,
                right: left + width - 16.0,
                top: top + 36.0,
                bottom: top + 36.0 + PANEL_HEIGHT,
            };
            let scale = Scales::new(&area, &[series], false);
            scale.axes(out, &self.x);
            scale.curve(series, out);
            scale.points(kind, series, out);
        }
        let rows = self.series.len().div_ceil(PANELS_IN_A_ROW);
        let below = top + rows as f64 * height;
        let key = format!(
            "{}: dots are measured, from the least to the most where runs differ; the line or the area is the formula",
            self.y
        );
        text(out, "legend", (MARGIN, below + 4.0), SMALL, "start", &key);
        (below + MARGIN + 4.0).ceil()
    }
}

/// Where a panel is.
struct Panel {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// How numbers become places in a panel.
struct Scales<'a> {
    area: &'a Panel,
    x: (f64, f64),
    top: f64,
    is_logarithmic: bool,
}

impl<'a> Scales<'a> {
    fn new(area: &'a Panel, series: &[&Series], is_logarithmic: bool) -> Self {
        let points = || series.iter().flat_map(|series| &series.points);
        let curves = || series.iter().flat_map(|series| &series.curve);
        let xs = || points().map(|point| point.x).chain(curves().map(|bounds| bounds.x));
        let first = xs().fold(f64::INFINITY, f64::min);
        let last = xs().fold(f64::NEG_INFINITY, f64::max);
        let x = if first < last { (first, last) } else { (first.min(last) - 1.0, first.max(last) + 1.0) };
        let x = if x.0.is_finite() && x.1.is_finite() { x } else { (0.0, 1.0) };
        let measured = points().map(|point| point.high).fold(0.0, f64::max);
        // A bound far above what was measured would press the points to the ground.
        let bound = curves().map(|bounds| bounds.high.unwrap_or(bounds.low)).fold(0.0, f64::max);
        let top = if is_logarithmic { measured } else { measured.max(bound.min(3.0 * measured)) };
        Self { area, x, top: if top.is_finite() && top > 0.0 { top * 1.06 } else { 1.0 }, is_logarithmic }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0);
        let up = if self.is_logarithmic { (1.0 + y).ln() / (1.0 + self.top).ln() } else { y / self.top };
        let Panel { left, right, top, bottom } = self.area;
        (left + across * (right - left), bottom - up.clamp(0.0, 1.0) * (bottom - top))
    }

    fn axes(&self, out: &mut String, name: &str) {
        let Panel { left, right, top, bottom } = *self.area;
        path(out, "axis", &format!("M{left:.1} {top:.1}V{bottom:.1}H{right:.1}"), "");
        for tick in self.upward() {
            let (_, y) = self.at(self.x.0, tick);
            path(out, "axis", &format!("M{:.1} {y:.1}H{left:.1}", left - 4.0), "");
            text(out, "tick", (left - 7.0, y + 3.0), SMALL, "end", &number(tick));
        }
        for tick in round_ticks(self.x.0, self.x.1, 6) {
            let (x, _) = self.at(tick, 0.0);
            path(out, "axis", &format!("M{x:.1} {bottom:.1}v4"), "");
            text(out, "tick", (x, bottom + 15.0), SMALL, "middle", &number(tick));
        }
        text(out, "tick", (left - 20.0, bottom + 15.0), SMALL, "middle", name);
    }

    /// The ticks of the axis that goes up.
    fn upward(&self) -> Vec<f64> {
        if !self.is_logarithmic {
            return round_ticks(0.0, self.top, 4);
        }
        let decades = (0..7).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        [0.0].into_iter().chain(decades).take_while(|tick| *tick <= self.top).collect()
    }

    /// A line where the formula is exact, else the area between its bounds.
    fn curve(&self, series: &Series, out: &mut String) {
        let is_exact = series.curve.iter().all(|bounds| bounds.high == Some(bounds.low));
        let low: Vec<_> = series.curve.iter().map(|bounds| self.at(bounds.x, bounds.low)).collect();
        if is_exact {
            path(out, "arrow plain", &line(&low), &series.formula);
            return;
        }
        let high = series.curve.iter().rev().map(|bounds| self.at(bounds.x, bounds.high.unwrap_or(self.top)));
        let around: Vec<_> = low.into_iter().chain(high).collect();
        path(out, "paused", &format!("{}Z", line(&around)), &series.formula);
    }

    fn points(&self, kind: usize, series: &Series, out: &mut String) {
        let colour = theme::colour(kind);
        for point in &series.points {
            let Spread { x, low, mean, high } = *point;
            let ((x1, y1), (_, y2)) = (self.at(x, low), self.at(x, high));
            let title = if low < high {
                format!(
                    "{} at {}: {} to {}, {} on average",
                    series.name,
                    number(x),
                    number(low),
                    number(high),
                    number(mean)
                )
            } else {
                format!("{} at {}: {}", series.name, number(x), number(mean))
            };
            if y1 - y2 > 1.0 {
                path(out, &format!("arrow k{colour}"), &format!("M{x1:.1} {y1:.1}V{y2:.1}"), &title);
            }
            path(out, &format!("head k{colour}"), &mark(0, self.at(x, mean)), &title);
        }
    }
}

/// Round numbers between the two, about as many as are wanted.
fn round_ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let span = to - from;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let rough = span / wanted as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (from / step).ceil() as i64;
    (first..first + 2 * wanted as i64 + 2).map(|k| k as f64 * step).take_while(|tick| *tick <= to).collect()
}

/// A number with as many digits as anyone reads.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// There are fewer colours than algorithms: after the last, lines are broken.
fn dash(kind: usize) -> &'static str {
    if theme::colour(kind) == kind { "" } else { " dashed" }
}

fn line(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        put(&mut path, format_args!("{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' }));
    }
    path
}

/// A dot; a square where its colour is used for the second time.
fn mark(kind: usize, (x, y): (f64, f64)) -> String {
    if theme::colour(kind) == kind {
        let r = 2.6;
        return format!(
            "M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 {:.1} 0Z",
            x - r,
            2.0 * r,
            -2.0 * r
        );
    }
    format!("M{:.1} {:.1}h5v5h-5Z", x - 2.5, y - 2.5)
}

fn path(out: &mut String, class: &str, path: &str, title: &str) {
    if path.is_empty() {
        return;
    }
    put(out, format_args!("<path class=\"{class}\" d=\"{path}\">"));
    if !title.is_empty() {
        put(out, format_args!("<title>{}</title>", escape_xml(title)));
    }
    out.push_str("</path>\n");
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), size: f64, anchor: &str, words: &str) {
    // Nothing goes beyond the right edge, however long a name is.
    let room = if anchor == "start" { ((WIDTH - x) / (size * LETTER)) as usize } else { columns(words) };
    put(
        out,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{}</text>\n",
            escape_xml(&cut(words, room, "…"))
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, exact: bool) -> Series {
        let xs = [2.0, 3.0, 4.0];
        let high = |x: f64| Some(if exact { 2.0 * x } else { 4.0 * x });
        Series {
            name: name.into(),
            formula: "2n & <more>".into(),
            curve: xs.map(|x| Bounds { x, low: 2.0 * x, high: high(x) }).to_vec(),
            points: xs.map(|x| Spread { x, low: 2.0 * x, mean: 2.5 * x, high: 3.0 * x }).to_vec(),
        }
    }

    #[test]
    fn numbers_become_places_in_the_panel() {
        let area = Panel { left: 10.0, right: 110.0, top: 20.0, bottom: 120.0 };
        let one = series("one", true);
        let scale = Scales::new(&area, &[&one], false);
        assert_eq!(scale.at(2.0, 0.0), (10.0, 120.0));
        assert_eq!(scale.at(4.0, scale.top), (110.0, 20.0));
        let unbounded = Series { curve: vec![Bounds { x: 2.0, low: 1.0, high: None }], ..one };
        let scale = Scales::new(&area, &[&unbounded], true);
        assert_eq!(scale.at(2.0, 1e9).1, 20.0, "what is too large stays inside");
    }

    #[test]
    fn every_series_has_a_panel_with_its_formula() {
        let plot = Plot {
            title: "messages".into(),
            x: "n".into(),
            y: "per entry".into(),
            series: vec![series("exact", true), series("bounded", false)],
        };
        let svg = plot.svg(Theme::Light);
        assert!(svg.contains("2n &amp; &lt;more&gt;") && !svg.contains("<more>"));
        assert!(svg.contains(">exact</text>") && svg.contains(">bounded</text>"));
        assert_eq!(
            svg.matches("class=\"paused\"").count(),
            1,
            "an area for bounds, a line for what is exact"
        );
        assert!(svg.contains("8 to 12, 10 on average"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let empty = Plot {
            series: vec![Series { curve: Vec::new(), points: Vec::new(), ..series("none", true) }],
            ..plot
        };
        assert!(!empty.svg(Theme::Auto).contains("NaN"));
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(round_ticks(2.0, 32.0, 6), [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(round_ticks(0.0, 3.2, 4), [0.0, 1.0, 2.0, 3.0]);
        assert!(round_ticks(1.0, 1.0, 4).is_empty());
    }
}
