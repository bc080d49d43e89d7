//! Steps of a run by hand, for people.

use conclave_sim::step::Standing;
use conclave_sim::world::Presence;
use owo_colors::OwoColorize as _;

use super::{columns, indented, terminal_width};

/// What came of a command: what one input did stands together, and goes on below itself where it does not fit.
pub fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| folded(line, "      ")).collect()
}

/// A line of a script is broken between what it tells, and not in the middle of it.
fn folded(line: &str, margin: &str) -> String {
    const BETWEEN: &str = "   ";
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(margin.len()).max(20));
    let mut text = String::new();
    let mut row = String::new();
    for part in line.split(BETWEEN) {
        if !row.is_empty() && columns(&row) + BETWEEN.len() + columns(part) > room {
            text += &indented(margin, &row);
            row = format!("  {part}");
        } else {
            if !row.is_empty() {
                row += BETWEEN;
            }
            row += part;
        }
    }
    text + &indented(margin, &row)
}

/// What became of the processes: the values that have changed, then how all of them stand if that has.
pub fn changes(before: &[Standing], after: &[Standing]) -> String {
    let mut text = values(before, after);
    let stands = |all: &[Standing]| all.iter().map(|one| (one.id, word(one))).collect::<Vec<_>>();
    if stands(before) != stands(after) {
        text += &standings("      ", after);
    }
    text
}

/// The values that have changed, process by process.
pub fn values(before: &[Standing], after: &[Standing]) -> String {
    let mut text = String::new();
    for standing in after {
        let earlier = before.iter().find(|other| other.id == standing.id);
        let known = |name: &str| {
            let state = earlier.map_or(&[][..], |earlier| &earlier.state);
            state.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
        };
        let changed = standing.state.iter().filter(|(name, value)| known(name) != Some(value.as_str()));
        let changed: Vec<_> = changed.map(|(name, value)| format!("{name}: {value}")).collect();
        if earlier.is_some() && !changed.is_empty() && standing.presence == Presence::Up {
            let line = indented(&format!("      {:<4} ", standing.id.to_string()), &changed.join(", "));
            text += &line.dimmed().to_string();
        }
    }
    text
}

/// How all processes stand, in a line, or in as many as it takes.
pub fn standings(margin: &str, all: &[Standing]) -> String {
    let each: Vec<_> = all.iter().map(|one| format!("{} {}", one.id, word(one))).collect();
    indented(margin, &each.join(" · "))
}

/// What a process is doing, in a word.
pub fn word(standing: &Standing) -> &'static str {
    match standing.presence {
        Presence::Up => standing.phase.name,
        Presence::Down => "down",
        Presence::Absent => "not there",
        Presence::Gone => "gone",
    }
}
