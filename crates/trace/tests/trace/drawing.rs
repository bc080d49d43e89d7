//! Drawings: no two texts overlap, nothing lies outside, and everything that happened can be seen.

use std::time::{Duration, Instant};

use crate::common::{Run, comings_and_goings, contended, disasters, random};
use conclave_core::NodeId;
use conclave_trace::{Axis, Layout, Role, Stamps, SvgOptions, Theme, What, layout, svg};

fn all_options() -> Vec<SvgOptions> {
    let mut all = Vec::new();
    for stamps in [Stamps::None, Stamps::Lamport, Stamps::Vector] {
        for axis in [Axis::Time, Axis::Step] {
            all.push(SvgOptions { stamps, axis, ..SvgOptions::default() });
        }
    }
    all
}

/// The promise about text: apart from each other, and inside the drawing.
fn assert_readable(layout: &Layout, about: &str) {
    for (place, label) in layout.labels.iter().enumerate() {
        let area = label.area;
        assert!(
            area.x >= 0.0 && area.y >= 0.0 && area.right() <= layout.width && area.bottom() <= layout.height,
            "{about}: {label:?} lies outside of {} x {}",
            layout.width,
            layout.height
        );
        for other in &layout.labels[place + 1..] {
            assert!(!area.overlaps(&other.area), "{about}: {label:?} overlaps {other:?}");
        }
    }
}

/// Every tag is closed, in order, and there is no mark that should have been escaped.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>') || open.last() == Some(&"style"), "a loose > in {text}");
        let end = start + rest[start..].find('>').expect("every < has its >");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or(tag));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} is not closed");
    for (at, _) in xml.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
        assert!(
            known.iter().any(|entity| xml[at..].starts_with(entity)),
            "{}",
            &xml[at..(at + 9).min(xml.len())]
        );
    }
}

fn texts(layout: &Layout, wanted: impl Fn(Role) -> bool) -> Vec<&str> {
    layout.labels.iter().filter(|label| wanted(label.role)).map(|label| label.text.as_str()).collect()
}

fn messages(layout: &Layout) -> usize {
    texts(layout, |role| matches!(role, Role::Message(_))).len()
}

#[test]
fn forty_messages_of_eight_processes_are_all_readable() {
    for seed in 0..12 {
        for fifo in [true, false] {
            let trace = random(8, 40, fifo, seed);
            let sent = trace.records.iter().filter(|record| matches!(record.what, What::Send(_))).count();
            for options in all_options() {
                let layout = layout(&trace, &options);
                let about = format!("seed {seed}, fifo {fifo}, {options:?}");
                assert_readable(&layout, &about);
                assert_eq!(messages(&layout), sent, "{about}");
                assert_eq!(layout.left_out, 0, "{about}");
            }
        }
    }
}

#[test]
fn a_contended_run_shows_what_happened() {
    let trace = contended();
    for options in all_options() {
        let layout = layout(&trace, &options);
        assert_readable(&layout, "contended");
        assert_eq!(layout.left_out, 0);
        assert_eq!(messages(&layout), 12);
    }
    let layout = layout(&trace, &SvgOptions::default());
    assert_eq!(texts(&layout, |role| role == Role::Title), ["ricart-agrawala, n = 3"]);
    assert_eq!(texts(&layout, |role| role == Role::Lane), ["p1", "p1", "p2", "p2", "p3", "p3"]);
    assert_eq!(texts(&layout, |role| role == Role::Fence), ["0.1.1", "0.2.2", "0.3.3"]);
    // Only what occurs is explained.
    let legend = texts(&layout, |role| role == Role::Legend);
    assert_eq!(legend, ["Request", "Reply", "waiting", "holding", "request"]);
}

#[test]
fn what_goes_wrong_is_drawn_and_explained() {
    let trace = disasters();
    for options in all_options() {
        assert_readable(&layout(&trace, &options), "disasters");
    }
    let layout = layout(&trace, &SvgOptions::default());
    let legend = texts(&layout, |role| role == Role::Legend);
    let marks = [
        "lost",
        "second copy",
        "overtaken",
        "still in flight",
        "timer",
        "event",
        "down",
        "restart",
        "paused",
        "suspects",
        "trusts again",
        "rejects",
        "network cut",
        "property broken",
    ];
    for mark in marks {
        assert!(legend.contains(&mark), "{mark} is missing in {legend:?}");
    }
    assert_eq!(texts(&layout, |role| role == Role::Cut), ["cut 1,2/3,4"]);
    let findings = texts(&layout, |role| role == Role::Finding);
    assert_eq!(findings[0], "ME1");
    assert!(findings[1..].join(" ").ends_with("although p3 & p4 never <replied>"), "{findings:?}");
    let notes = texts(&layout, |role| role == Role::Note);
    for note in ["p4?", "p4 ok", "retry", "elected p2", "life 2", "rejects p1"] {
        assert!(notes.contains(&note), "{note} is missing in {notes:?}");
    }
}

#[test]
fn who_comes_and_goes_is_drawn() {
    let trace = comings_and_goings();
    for options in all_options() {
        assert_readable(&layout(&trace, &options), "comings and goings");
        assert_well_formed(&svg(&trace, &options));
    }
    let layout = layout(&trace, &SvgOptions::default());
    let legend = texts(&layout, |role| role == Role::Legend);
    for mark in ["joins", "suspects", "trusts again", "event", "request"] {
        assert!(legend.contains(&mark), "{mark} is missing in {legend:?}");
    }
    assert_eq!(texts(&layout, |role| role == Role::Title), ["group, n = 2 + 1"]);
    assert_eq!(texts(&layout, |role| role == Role::Fence), ["0.1.1", "1p2.1.2"]);
    let notes = texts(&layout, |role| role == Role::Note);
    for note in ["p1?", "p1 ok", "lost 0.1.1", "joins", "leave", "left"] {
        assert!(notes.contains(&note), "{note} is missing in {notes:?}");
    }
    // Each lane is one line: from the beginning to the end, to where it leaves, from where it joins.
    assert_eq!(svg(&trace, &SvgOptions::default()).matches("<path class=\"lane\"").count(), 3);
}

/// What became of a message shows in its line, as often as it happened.
#[test]
fn fates_of_messages_are_told_apart() {
    let mut run = Run::new("marks", 1..=2);
    let input = run.acquire(0, 1);
    let sends: Vec<u64> = (0..4).map(|_| run.send(input, 2, "Note")).collect();
    run.duplicate(sends[0], 0);
    run.deliver(sends[0], 500);
    run.deliver(sends[2], 600);
    // A second copy of the first: that it is late as well says nothing more.
    run.deliver(sends[0], 700);
    // The second was overtaken by the third.
    run.deliver(sends[1], 800);
    run.lose(sends[3], 900);
    let picture = svg(&run.trace, &SvgOptions::default());
    // The legend has one more of each line that it explains in the colour of its kind, each cross and each band.
    let expected = [
        ("arrow double k0", 1),
        ("arrow dotted k0", 1),
        ("arrow dashed k0", 1),
        ("arrow k0", 2 + 1),
        ("head k0", 4 + 1),
        ("cross", 1 + 1),
        ("waiting", 1 + 1),
        ("holding", 0),
    ];
    for (class, times) in expected {
        assert_eq!(picture.matches(&format!("<path class=\"{class}\"")).count(), times, "{class}");
    }
}

#[test]
fn small_and_odd_traces() {
    let mut one = Run::new("alone", [4_000_000_000]);
    let at = one.acquire(10, 4_000_000_000);
    one.grant(at, "0.1.4000000000");
    let empty = Run::new("nothing", 1..=3);
    let nobody = Run::new("nobody", []);
    let mut long = Run::new("a name that is much longer than any drawing is wide ".repeat(9).as_str(), 1..=2);
    let at = long.acquire(0, 1);
    let send = long.send(at, 2, &"Extremely".repeat(40));
    long.deliver(send, u64::MAX);
    let mut back = Run::new("clocks that go back", 1..=2);
    let at = back.acquire(5_000, 1);
    let send = back.send(at, 2, "Request{1}");
    back.deliver(send, 100);
    let mut stranger = Run::new("stranger", 1..=2);
    stranger.input(0, 9, What::Suspect { peer: NodeId(77), life: None });
    let mut self_send = Run::new("to itself", 1..=2);
    let at = self_send.acquire(0, 1);
    let send = self_send.send(at, 1, "Echo");
    self_send.deliver(send, 10);
    for run in [one, empty, nobody, long, back, stranger, self_send] {
        for options in all_options() {
            assert_readable(&layout(&run.trace, &options), &run.trace.header.algorithm);
            assert_well_formed(&svg(&run.trace, &options));
        }
    }
}

#[test]
fn pictures_are_well_formed_in_every_theme() {
    let mut trace = disasters();
    trace.header.algorithm = "a<b>&\"c\"\u{0}".to_owned();
    for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
        let picture = svg(&trace, &SvgOptions { theme, ..SvgOptions::default() });
        assert_well_formed(&picture);
        assert_eq!(picture.contains("prefers-color-scheme:dark"), theme == Theme::Auto);
        assert!(!picture.contains('\u{0}'));
    }
}

#[test]
fn equal_steps_have_equal_distances() {
    let trace = random(4, 10, true, 1);
    let ticks = |axis| {
        let layout = layout(&trace, &SvgOptions { axis, ..SvgOptions::default() });
        let ticks = layout.labels.into_iter().filter(|label| label.role == Role::Tick).skip(1);
        ticks.map(|label| label.area.x + label.area.width / 2.0).collect::<Vec<_>>()
    };
    let gaps = |ticks: Vec<f64>| ticks.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect::<Vec<_>>();
    let steps = gaps(ticks(Axis::Step));
    let unit = steps.iter().copied().fold(f64::MAX, f64::min);
    assert!(steps.iter().all(|gap| (gap / unit - (gap / unit).round()).abs() < 0.05), "{steps:?}");
}

#[test]
fn idle_processes_of_a_large_group_have_no_lane() {
    let mut run = Run::new("crowd", 1..=1_000);
    for process in 1..=1_000 {
        run.input(0, process, What::Start);
    }
    let at = run.acquire(0, 7);
    let send = run.send(at, 900, "Request{1}");
    run.deliver(send, 1_000);
    let layout = layout(&run.trace, &SvgOptions::default());
    assert_eq!(texts(&layout, |role| role == Role::Lane), ["p7", "p7", "p900", "p900"]);
    assert_eq!(
        texts(&layout, |role| role == Role::Title),
        ["crowd, n = 1000 (998 idle processes not shown)"]
    );
}

/// A generous bound: it is there to notice when the work grows with the square of the messages.
#[test]
fn ten_thousand_messages_are_drawn_in_reasonable_time() {
    let trace = random(20, 10_000, false, 9);
    let start = Instant::now();
    let picture = svg(&trace, &SvgOptions::default());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(picture.matches("<title>").count() > 10_000);
}
