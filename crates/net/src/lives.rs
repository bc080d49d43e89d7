//! Reads the records of lives line by line: once to see what they tell of in all, and once more to put them together.
//!
//! Records may be longer than memory. What is kept of the first reading is what cannot be known at a line: the names of locks,
//! how far each record goes, and who is suspected to the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use conclave_core::NodeId;
use conclave_trace::{Header, What};

use crate::merge::{MergeError, Names, inferred};
use crate::record::{FORMAT, Line, Opening, VERSION};

/// A life of a process, by its number.
pub(crate) type Life = (NodeId, u32);

/// What a first reading of a record shows.
pub(crate) struct Survey {
    path: PathBuf,
    pub opening: Opening,
    /// Lines of whole steps; nothing of a step of which lines are missing has left the process.
    lines: usize,
    /// The time of the last of them.
    last_time: Option<u64>,
    /// The last event of the process, by its own count.
    events: u64,
    names: BTreeSet<String>,
    /// Whom it suspects at the end, and since when.
    suspects: BTreeMap<Life, u64>,
    /// How often it came to trust a life.
    trusts: BTreeMap<Life, usize>,
}

impl Survey {
    /// Reads a record from its beginning to its end.
    pub fn of(path: &Path) -> Result<Self, MergeError> {
        let mut reader = Reader::open(path)?;
        let opening = reader.opening()?;
        let place = opening.header.nodes.iter().position(|node| *node == opening.process);
        let mut survey = Self {
            path: path.to_owned(),
            opening,
            lines: 0,
            last_time: None,
            events: 0,
            names: BTreeSet::new(),
            suspects: BTreeMap::new(),
            trusts: BTreeMap::new(),
        };
        let mut step: Vec<Line> = Vec::new();
        while let Some(line) = reader.line()? {
            step.push(line);
            if step.len() > step[0].follow {
                step.drain(..).for_each(|line| survey.note(&line, place.unwrap_or_default()));
            }
        }
        Ok(survey)
    }

    fn note(&mut self, line: &Line, place: usize) {
        self.lines += 1;
        self.last_time = Some(line.record.time);
        self.events = self.events.max(own_count(line, place));
        self.names.extend(line.lock_name.clone());
        match &line.record.what {
            What::Suspect { peer, life } => {
                self.suspects.insert((*peer, life.unwrap_or(1)), line.record.time);
            }
            What::Trust { peer, life } => {
                let that = (*peer, life.unwrap_or(1));
                self.suspects.remove(&that);
                *self.trusts.entry(that).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// Which event of its process a line is.
pub(crate) fn own_count(line: &Line, place: usize) -> u64 {
    line.record.vector.as_ref().map_or(0, |vector| vector.get(place))
}

/// The lines of a record, one by one.
struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// The line that was read last, from 1.
    at: usize,
    bytes: Vec<u8>,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, MergeError> {
        let file = File::open(path).map_err(|error| MergeError::Io { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), at: 0, bytes: Vec::new() })
    }

    /// Whether there is a line.
    fn advance(&mut self) -> Result<bool, MergeError> {
        self.bytes.clear();
        self.at += 1;
        let read = self.file.read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|error| MergeError::Io { path: self.path.clone(), error })?;
        Ok(read > 0)
    }

    fn opening(&mut self) -> Result<Opening, MergeError> {
        self.advance()?;
        let opening: Option<Opening> = serde_json::from_slice(&self.bytes).ok();
        let opening = opening.filter(|opening| opening.format == FORMAT && opening.version == VERSION);
        opening.ok_or_else(|| MergeError::NotARecord { path: self.path.clone() })
    }

    fn line(&mut self) -> Result<Option<Line>, MergeError> {
        if !self.advance()? {
            return Ok(None);
        }
        match serde_json::from_slice(&self.bytes) {
            Ok(line) => Ok(Some(line)),
            // The process was killed while it wrote; nothing of that step has left it.
            Err(_) if !self.bytes.ends_with(b"\n") => Ok(None),
            Err(error) => {
                Err(MergeError::Broken { path: self.path.clone(), line: self.at, why: error.to_string() })
            }
        }
    }
}

/// What a process lived through: an input and what it did with it, or something that happened to it.
pub(crate) struct Step {
    pub lines: Vec<Line>,
}

impl Step {
    pub fn first(&self) -> &Line {
        &self.lines[0]
    }

    pub fn what(&self) -> &What {
        &self.first().record.what
    }
}

/// All lives of a process, from the present step on.
pub(crate) struct History {
    pub process: NodeId,
    /// The lives that are still to be read, and how many lines each has.
    lives: VecDeque<(PathBuf, usize)>,
    /// The life that is being read, and how many lines it still has.
    reader: Option<(Reader, usize)>,
    /// The line behind the present step.
    ahead: Option<Line>,
    present: Option<Step>,
    /// The time of the last line of the present step or before.
    time: u64,
    /// The number of the last life; none was recorded if it is zero.
    last_life: u32,
    /// The last life of which something was recorded.
    reached: u32,
    /// When something last happened in it.
    last_time: u64,
    /// The last event, by its own count.
    pub events: u64,
    /// Whether the last life is over, too.
    crashes: bool,
    /// Whether that was handed out.
    has_crashed: bool,
    suspects: BTreeMap<Life, u64>,
    /// How often it will still come to trust a life.
    trusts: BTreeMap<Life, usize>,
}

impl History {
    fn of(process: NodeId, lives: BTreeMap<u32, Survey>) -> Result<Self, MergeError> {
        let mut history = Self {
            process,
            lives: VecDeque::new(),
            reader: None,
            ahead: None,
            present: None,
            time: 0,
            last_life: 0,
            reached: 1,
            last_time: 0,
            events: 0,
            crashes: false,
            has_crashed: false,
            suspects: BTreeMap::new(),
            trusts: BTreeMap::new(),
        };
        for (expected, (number, life)) in (1..).zip(lives) {
            if number != expected {
                return Err(MergeError::Lives { process, life: expected });
            }
            history.last_life = number;
            if life.lines > 0 {
                history.reached = number;
            }
            history.last_time = life.last_time.unwrap_or(history.last_time);
            history.events = history.events.max(life.events);
            // A new life suspects nobody.
            history.suspects = life.suspects;
            for (that, count) in life.trusts {
                *history.trusts.entry(that).or_default() += count;
            }
            history.lives.push_back((life.path, life.lines));
        }
        Ok(history)
    }

    /// Whether there is a record of it at all.
    pub fn is_recorded(&self) -> bool {
        self.last_life > 0
    }

    /// The last life of which it is recorded that it has begun.
    pub fn reached(&self) -> u32 {
        self.reached
    }

    /// Whether a life ends at some point.
    pub fn ends(&self, life: u32) -> bool {
        life < self.last_life || (life == self.last_life && self.crashes)
    }

    /// Whether it will come to trust a life after the present step.
    pub fn will_trust(&self, that: Life) -> bool {
        self.trusts.get(&that).is_some_and(|count| *count > 0)
    }

    /// The step that is next.
    pub fn present(&self) -> Option<&Step> {
        self.present.as_ref()
    }

    /// Hands out the present step, and reads the one behind it.
    pub fn advance(&mut self, names: &Names) -> Result<Option<Step>, MergeError> {
        let next = self.read_step(names)?;
        let step = core::mem::replace(&mut self.present, next);
        if let Some(What::Trust { peer, life }) = self.present.as_ref().map(Step::what)
            && let Some(count) = self.trusts.get_mut(&(*peer, life.unwrap_or(1)))
        {
            *count -= 1;
        }
        Ok(step)
    }

    fn read_step(&mut self, names: &Names) -> Result<Option<Step>, MergeError> {
        let first = match self.ahead.take() {
            Some(line) => line,
            None => match self.read_line(names)? {
                Some(line) => line,
                None => return self.begin_next_life(names),
            },
        };
        let mut lines = vec![first];
        while let Some(line) = self.read_line(names)? {
            // An effect names its input.
            if line.record.cause.is_none() {
                self.ahead = Some(line);
                break;
            }
            lines.push(line);
        }
        self.time = lines.last().map_or(self.time, |line| line.record.time);
        Ok(Some(Step { lines }))
    }

    /// The life that was read is over: that is a step by itself.
    fn begin_next_life(&mut self, names: &Names) -> Result<Option<Step>, MergeError> {
        let was_read = self.reader.take().is_some();
        let next = self.lives.pop_front();
        let is_over = next.is_some() || (self.crashes && !self.has_crashed);
        self.has_crashed |= next.is_none();
        if let Some((path, lines)) = next {
            let mut reader = Reader::open(&path)?;
            reader.opening()?;
            self.reader = Some((reader, lines));
        }
        if was_read && is_over {
            let record = inferred(self.process, What::Crash { after: None }, self.time, None);
            return Ok(Some(Step { lines: vec![Line::of(record)] }));
        }
        if self.reader.is_some() { self.read_step(names) } else { Ok(None) }
    }

    fn read_line(&mut self, names: &Names) -> Result<Option<Line>, MergeError> {
        let Some((reader, left)) = self.reader.as_mut().filter(|(_, left)| *left > 0) else {
            return Ok(None);
        };
        *left -= 1;
        let mut line = reader.line()?;
        if let Some(line) = &mut line {
            names.renumber(line);
        }
        Ok(line)
    }

    /// How many lines it still has, from the present step on.
    pub fn count_left(&mut self, names: &Names) -> Result<usize, MergeError> {
        let mut count = 0;
        while let Some(step) = self.advance(names)? {
            count += step.lines.len();
        }
        Ok(count)
    }
}

/// What all records together tell of.
pub(crate) struct Records {
    pub header: Header,
    pub histories: Vec<History>,
    pub names: Names,
}

/// Reads all records once. Of those who still run no crash is inferred.
pub(crate) fn survey(paths: &[PathBuf], running: &BTreeSet<NodeId>) -> Result<Records, MergeError> {
    let mut surveys = paths.iter().map(|path| Survey::of(path)).collect::<Result<Vec<_>, _>>()?;
    let header = surveys.first().ok_or(MergeError::Nothing)?.opening.header.clone();
    if let Some(other) = surveys.iter().find(|life| life.opening.header != header) {
        return Err(MergeError::AnotherRun { path: other.path.clone() });
    }
    let names: BTreeSet<String> =
        surveys.iter_mut().flat_map(|life| core::mem::take(&mut life.names)).collect();
    let mut sorted: BTreeMap<NodeId, BTreeMap<u32, Survey>> = BTreeMap::new();
    for life in surveys {
        let Opening { process, life: number, .. } = life.opening;
        if sorted.entry(process).or_default().insert(number, life).is_some() {
            return Err(MergeError::Lives { process, life: number });
        }
    }
    let lives = |process: &NodeId| History::of(*process, sorted.remove(process).unwrap_or_default());
    let mut histories = header.nodes.iter().map(lives).collect::<Result<Vec<_>, _>>()?;
    infer_crashes(&mut histories, running);
    Ok(Records { header, histories, names: Names::of(&names) })
}

/// A last life that somebody suspects to the end is over, if it did nothing afterwards, and does not run.
fn infer_crashes(histories: &mut [History], running: &BTreeSet<NodeId>) {
    let mut suspected: BTreeMap<Life, u64> = BTreeMap::new();
    for (that, time) in histories.iter().flat_map(|history| &history.suspects) {
        let latest = suspected.entry(*that).or_default();
        *latest = (*time).max(*latest);
    }
    for history in histories {
        let since = suspected.get(&(history.process, history.last_life));
        let is_silent = since.is_some_and(|since| history.last_time <= *since);
        history.crashes = is_silent && !running.contains(&history.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::opening;

    fn record(dir: &Path, lines: &[Line], end: &str) -> PathBuf {
        let path = dir.join("record-1.jsonl");
        let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
        std::fs::write(&path, opening(&[1, 2]) + &lines.collect::<String>() + end).unwrap();
        path
    }

    fn line(follow: usize) -> Line {
        let cause = (follow == 0).then_some(0);
        Line { follow, ..Line::of(inferred(NodeId(1), What::Start, 7, cause)) }
    }

    #[test]
    fn half_a_step_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let all = [0, 2, 0, 0, 0, 1, 0].map(line);
        for (written, whole) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 5), (6, 5), (7, 7)] {
            for end in ["", "{\"id\":", "{"] {
                let path = record(dir.path(), &all[..written], end);
                let survey = Survey::of(&path).unwrap();
                assert_eq!(survey.lines, whole, "of {written} lines");
                let mut records = crate::lives::survey(&[path], &BTreeSet::new()).unwrap();
                let mut read = 0;
                records.histories[0].advance(&records.names).unwrap();
                while let Some(step) = records.histories[0].advance(&records.names).unwrap() {
                    read += step.lines.len();
                }
                assert_eq!(read, whole, "of {written} lines");
            }
        }
    }

    #[test]
    fn a_line_in_the_middle_that_means_nothing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = record(dir.path(), &[line(0), line(0)], "\n{}\n");
        assert!(matches!(Survey::of(&path), Err(MergeError::Broken { line: 4, .. })));
    }
}
