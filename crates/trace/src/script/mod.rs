//! Golden scripts: commands, and what was recorded when they were carried out.
//!
//! ```text
//! # Two processes ask at once; the smaller (stamp, id) goes first.
//! run ricart-agrawala -n 2
//! request 1
//! request 2
//! ---
//! p1 idle -> waiting   p1 => p2 Request{1}
//! p2 idle -> waiting   p2 => p1 Request{1}
//!
//! deliver p1 => p2
//! ---
//! p2 => p1 Reply{1,1,0}
//! ```
//!
//! Blocks are separated by blank lines. A block has comments, commands, a line `---`, and the recorded output up to the
//! next blank line; it may also be nothing but comments. The first command is `run`, and there is only one.

use core::fmt::{Display, Formatter};
use std::collections::BTreeSet;

use conclave_core::NodeId;
use thiserror::Error;

mod command;
mod repeat;
mod setup;

pub use command::{Carry, Command, Which};
pub use repeat::{commands_by_record, commands_of};
pub use setup::Setup;
pub(crate) use setup::{MOST_LOCKS, MOST_PAIRS};

/// A golden script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
}

/// Commands that are carried out together, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// What a reader shall know, line by line, without the `#`.
    pub comments: Vec<String>,
    /// The commands, each with the number of its line.
    pub commands: Vec<(Command, usize)>,
    /// The recorded output, line by line.
    pub recorded: Vec<String>,
}

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {mistake}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub mistake: Mistake,
}

/// What can be wrong in a line of a script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Mistake {
    /// No command has this name.
    #[error("there is no command `{name}`{}", suggestion(.nearest))]
    UnknownCommand {
        /// The name.
        name: String,
        /// A name that was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// The words after the name of a command are not those that it takes.
    #[error("this is written `{usage}`: {why}")]
    Usage {
        /// How the command is written.
        usage: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A process is not part of the run.
    #[error("{process} is not one of the processes of the run")]
    Stranger {
        /// The process.
        process: NodeId,
    },
    /// A lock does not exist.
    #[error("lock {lock} does not exist; `run` has {locks}, counted from 0")]
    NoLock {
        /// The lock.
        lock: usize,
        /// How many there are.
        locks: usize,
    },
    /// Something is to happen before it is said what runs.
    #[error("the first command of a script must be `run`")]
    RunNotFirst,
    /// A second run.
    #[error("a script has only one `run`; write a second script instead")]
    RunTwice,
    /// There is no command at all.
    #[error("the script has no `run`")]
    NoRun,
    /// A blank line before `---`.
    #[error("the commands before this line need a line `---` after them, even if nothing is recorded")]
    NoOutput,
    /// The end before `---`.
    #[error("the script ends in the middle of a block: a line `---` is missing after its commands")]
    EndsInBlock,
    /// Output of nothing.
    #[error("there is no command before this `---`")]
    NoCommands,
    /// A comment that would lose its place when the script is printed again.
    #[error("comments stand before the commands of their block")]
    LateComment,
    /// A second `---`: the blank line between two blocks was forgotten.
    #[error("a second `---` in one block: blocks are separated by a blank line")]
    SecondOutput,
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

const OUTPUT: &str = "---";

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// At the first line that is wrong, with what is wrong there.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut reader = Reader::default();
        let mut last = 0;
        for (line, content) in (1..).zip(text.lines()) {
            reader.line(line, content.trim_end()).map_err(|mistake| ScriptError { line, mistake })?;
            last = line;
        }
        reader.finish().map_err(|mistake| ScriptError { line: last.max(1), mistake })
    }

    /// What the script runs.
    #[must_use]
    pub fn setup(&self) -> Option<&Setup> {
        self.blocks.iter().flat_map(|block| &block.commands).find_map(|(command, _)| match command {
            Command::Run(setup) => Some(setup),
            _ => None,
        })
    }

    /// Who joins in the course of the script.
    #[must_use]
    pub fn newcomers(&self) -> Vec<NodeId> {
        let commands = self.blocks.iter().flat_map(|block| &block.commands).map(|(command, _)| command);
        newcomers(commands)
    }
}

/// Who joins in the course of these commands.
pub fn newcomers<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Vec<NodeId> {
    let joins = commands.into_iter().filter_map(|command| match command {
        Command::Join(process) => Some(*process),
        _ => None,
    });
    joins.collect()
}

/// A script that is being read.
#[derive(Default)]
struct Reader {
    script: Script,
    block: Block,
    part: Part,
    /// Who takes part by now and how many locks there are, once `run` has said so.
    world: Option<(BTreeSet<NodeId>, usize)>,
}

/// Where in a block we are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Comments,
    Commands,
    Output,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        match self.part {
            Part::Commands if line.is_empty() => Err(Mistake::NoOutput),
            _ if line.is_empty() => {
                self.end_block();
                Ok(())
            }
            Part::Output if line == OUTPUT => Err(Mistake::SecondOutput),
            Part::Output => {
                self.block.recorded.push(line.to_owned());
                Ok(())
            }
            Part::Comments if line == OUTPUT => Err(Mistake::NoCommands),
            Part::Commands if line == OUTPUT => {
                self.part = Part::Output;
                Ok(())
            }
            Part::Comments | Part::Commands => self.comment_or_command(number, line),
        }
    }

    fn comment_or_command(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        let line = line.trim_start();
        match (line.strip_prefix('#'), self.part) {
            (Some(_), Part::Commands) => Err(Mistake::LateComment),
            (Some(comment), _) => {
                self.block.comments.push(comment.strip_prefix(' ').unwrap_or(comment).to_owned());
                Ok(())
            }
            (None, _) => {
                let command = self.in_its_place(line.parse()?);
                self.check(&command)?;
                self.block.commands.push((command, number));
                self.part = Part::Commands;
                Ok(())
            }
        }
    }

    /// Somebody who is there and joins asks for it, in a family whose groups are not all the processes.
    fn in_its_place(&self, command: Command) -> Command {
        match (command, &self.world) {
            (Command::Join(process), Some((nodes, _))) if nodes.contains(&process) => {
                Command::Ask { process, request: "join".to_owned(), lock: 0 }
            }
            (command, _) => command,
        }
    }

    /// Whether the command makes sense after those before it.
    fn check(&mut self, command: &Command) -> Result<(), Mistake> {
        match (command, &mut self.world) {
            (Command::Run(setup), None) => {
                self.world = Some((setup.nodes.iter().copied().collect(), setup.locks));
                Ok(())
            }
            (Command::Run(_), Some(_)) => Err(Mistake::RunTwice),
            (_, None) => Err(Mistake::RunNotFirst),
            (Command::Join(process), Some((nodes, _))) => {
                nodes.insert(*process);
                Ok(())
            }
            (command, Some((nodes, locks))) => {
                if let Some(process) = command.processes().find(|process| !nodes.contains(process)) {
                    return Err(Mistake::Stranger { process });
                }
                match command {
                    Command::Ask { lock, .. } if *lock >= *locks => {
                        Err(Mistake::NoLock { lock: *lock, locks: *locks })
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn end_block(&mut self) {
        if self.block != Block::default() {
            self.script.blocks.push(core::mem::take(&mut self.block));
        }
        self.part = Part::Comments;
    }

    fn finish(mut self) -> Result<Script, Mistake> {
        if self.part == Part::Commands {
            return Err(Mistake::EndsInBlock);
        }
        if self.world.is_none() {
            return Err(Mistake::NoRun);
        }
        self.end_block();
        Ok(self.script)
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        for (place, block) in self.blocks.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            write!(f, "{block}")?;
        }
        Ok(())
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        for comment in &self.comments {
            writeln!(f, "{}", format!("# {comment}").trim_end())?;
        }
        for (command, _) in &self.commands {
            writeln!(f, "{command}")?;
        }
        if !self.commands.is_empty() {
            writeln!(f, "{OUTPUT}")?;
        }
        self.recorded.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
