//! What a script runs.

use core::fmt::{Display, Formatter};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use conclave_core::{NodeId, Timing, parse_time, show_time};

use super::command::parse_process;
use crate::Header;

/// No run has more processes.
const MOST_NODES: u32 = 1_000_000;

/// No run has more locks, and no more than that many pairs of process and lock.
pub(crate) const MOST_LOCKS: usize = 4_096;
pub(crate) const MOST_PAIRS: usize = 20_000_000;

/// What a script runs: an algorithm, its processes, its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The processes that are there from the beginning, in ring order.
    pub nodes: Vec<NodeId>,
    /// The settings of the algorithm that are given.
    pub settings: BTreeMap<String, String>,
    /// The mutant that runs instead.
    pub mutant: Option<String>,
    /// The channel order, `"fifo"` or `"any"`, if it is not the one that the algorithm declares.
    pub channels: Option<String>,
    /// How many locks there are.
    pub locks: usize,
    /// What the processes rely on: timers expire by command, but what a process counts on its clock depends on it.
    pub timing: Timing,
}

impl Setup {
    /// Processes `1, 2, ..., n` of an algorithm, with nothing set.
    #[must_use]
    pub fn numbered(algorithm: &str, n: u32) -> Self {
        Self {
            algorithm: algorithm.to_owned(),
            nodes: (1..=n).map(NodeId).collect(),
            settings: BTreeMap::new(),
            mutant: None,
            channels: None,
            locks: 1,
            timing: Timing::default(),
        }
    }

    /// What a trace was recorded of; who joined is not part of it.
    #[must_use]
    pub fn from_header(header: &Header) -> Self {
        let newcomers: BTreeSet<NodeId> = header.newcomers.iter().copied().collect();
        Self {
            algorithm: header.algorithm.clone(),
            nodes: header.nodes.iter().copied().filter(|node| !newcomers.contains(node)).collect(),
            settings: header.settings.clone(),
            mutant: header.mutant.clone(),
            channels: Some(header.channels.clone()),
            locks: header.locks,
            timing: header.timing,
        }
    }

    /// The header of a trace of this; `declared` is the channel order of the algorithm, where none is set here.
    #[must_use]
    pub fn to_header(&self, declared: &str) -> Header {
        Header {
            algorithm: self.algorithm.clone(),
            nodes: self.nodes.clone(),
            newcomers: Vec::new(),
            settings: self.settings.clone(),
            mutant: self.mutant.clone(),
            channels: self.channels.clone().unwrap_or_else(|| declared.to_owned()),
            locks: self.locks,
            seed: None,
            timing: self.timing,
        }
    }

    /// Reads what stands after `run`.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let (algorithm, options) = match words {
            [algorithm, options @ ..] if !algorithm.starts_with('-') => (algorithm, options),
            _ => return Err("the algorithm is missing".to_owned()),
        };
        let mut setup = Self::numbered(algorithm, 0);
        let mut given = Given::default();
        for pair in options.chunks(2) {
            match *pair {
                [option, value] => setup.set(option, value, &mut given)?,
                [option] if option.starts_with('-') => return Err(format!("`{option}` needs a value")),
                _ => return Err(format!("`{}` does not fit", pair.join(" "))),
            }
        }
        setup.nodes = given.nodes()?;
        if setup.nodes.len() * setup.locks > MOST_PAIRS {
            return Err("so many processes with so many locks do not fit into memory".to_owned());
        }
        Ok(setup)
    }

    fn set(&mut self, option: &str, value: &str, given: &mut Given) -> Result<(), String> {
        if option != "--set" && !given.options.insert(option.to_owned()) {
            return Err(format!("`{option}` is given twice"));
        }
        match option {
            "-n" => given.n = Some(parse_n(value)?),
            "--ids" => given.ids = Some(parse_ids(value)?),
            "--set" => {
                let (key, value) = value.split_once('=').unwrap_or_default();
                if key.is_empty() || value.is_empty() {
                    return Err("`--set` takes KEY=VALUE".to_owned());
                }
                if self.settings.insert(key.to_owned(), value.to_owned()).is_some() {
                    return Err(format!("`{key}` is set twice"));
                }
            }
            "--channels" if matches!(value, "fifo" | "any") => self.channels = Some(value.to_owned()),
            "--channels" => {
                return Err(format!("`{value}` is not a channel order; there are `fifo` and `any`"));
            }
            "--mutant" => self.mutant = Some(value.to_owned()),
            "--locks" => match value.parse() {
                Ok(locks) if (1..=MOST_LOCKS).contains(&locks) => self.locks = locks,
                Ok(locks) if locks > MOST_LOCKS => {
                    return Err(format!("`--locks` is at most {MOST_LOCKS}"));
                }
                _ => return Err(format!("`{value}` is not a number of locks")),
            },
            "--t-trans" => self.timing.transmission = Duration::from_micros(parse_time(value)?),
            "--t-process" => self.timing.processing = Duration::from_micros(parse_time(value)?),
            _ => return Err(format!("there is no option `{option}`")),
        }
        Ok(())
    }
}

/// What was said about the processes.
#[derive(Default)]
struct Given {
    n: Option<u32>,
    ids: Option<Vec<NodeId>>,
    options: BTreeSet<String>,
}

impl Given {
    fn nodes(self) -> Result<Vec<NodeId>, String> {
        match (self.n, self.ids) {
            (None, None) => Err("`-n` is missing".to_owned()),
            (Some(n), None) => Ok((1..=n).map(NodeId).collect()),
            (Some(n), Some(ids)) if ids.len() != n as usize => {
                Err(format!("`-n` says {n} processes, `--ids` names {}", ids.len()))
            }
            (_, Some(ids)) => Ok(ids),
        }
    }
}

fn parse_n(value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(n) if (1..=MOST_NODES).contains(&n) => Ok(n),
        _ => Err(format!("`{value}` is not a number of processes from 1 to {MOST_NODES}")),
    }
}

fn parse_ids(value: &str) -> Result<Vec<NodeId>, String> {
    let mut seen = BTreeSet::new();
    let mut ids = Vec::new();
    for word in value.split(',') {
        let id = parse_process(word)?;
        if !seen.insert(id) {
            return Err(format!("{id} is named twice"));
        }
        ids.push(id);
    }
    Ok(ids)
}

impl Display for Setup {
    /// As it stands after `run`, and on a command line.
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.algorithm)?;
        if self.nodes.iter().copied().eq((1..).map(NodeId).take(self.nodes.len())) {
            write!(f, " -n {}", self.nodes.len())?;
        } else {
            let ids: Vec<_> = self.nodes.iter().map(|id| id.0.to_string()).collect();
            write!(f, " --ids {}", ids.join(","))?;
        }
        self.settings.iter().try_for_each(|(key, value)| write!(f, " --set {key}={value}"))?;
        if let Some(channels) = &self.channels {
            write!(f, " --channels {channels}")?;
        }
        if let Some(mutant) = &self.mutant {
            write!(f, " --mutant {mutant}")?;
        }
        if self.locks != 1 {
            write!(f, " --locks {}", self.locks)?;
        }
        let usual = Timing::default();
        let bounds = [
            ("--t-trans", self.timing.transmission, usual.transmission),
            ("--t-process", self.timing.processing, usual.processing),
        ];
        for (option, bound, usual) in bounds {
            if bound != usual {
                let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
                write!(f, " {option} {}", show_time(micros))?;
            }
        }
        Ok(())
    }
}
