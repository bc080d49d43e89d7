//! A way through the states as the commands of a script.

use std::collections::BTreeMap;

use conclave_core::NodeId;
use conclave_trace::{Carry, Command, Which};

use crate::action::{Action, Place};
use crate::search::Search;
use crate::space::Root;

/// Follows a way step by step, with the numbers as they are, and writes down what it takes.
pub struct Walk<'a> {
    search: &'a mut Search,
    /// Where it is; the numbers are not moved down.
    root: Root,
    /// Of each channel: how many messages were sent, and which are in flight.
    channels: BTreeMap<(usize, usize), Channel>,
    /// Whether what is sent to somebody who is down is taken out at once: in a circle it must not pile up.
    is_circling: bool,
    /// What was done.
    pub commands: Vec<Command>,
}

/// Where a walk begins, if something has happened before.
#[derive(Clone)]
pub struct Start {
    pub root: Root,
    channels: BTreeMap<(usize, usize), Channel>,
    pub commands: Vec<Command>,
}

#[derive(Clone, Default)]
struct Channel {
    sent: u64,
    letters: Vec<Travelling>,
}

/// A message in flight.
#[derive(Clone)]
struct Travelling {
    nth: u64,
    message: u32,
    /// Its receiver has crashed since: it will not arrive.
    is_void: bool,
}

impl<'a> Walk<'a> {
    /// Begins where the search began.
    pub fn new(search: &'a mut Search) -> Self {
        match search.start.clone() {
            Some(Start { root, channels, commands }) => {
                Self { search, root, channels, is_circling: false, commands }
            }
            None => {
                let root = search.first_root();
                Self::at(search, root)
            }
        }
    }

    /// Begins where everyone has been started.
    pub fn at(search: &'a mut Search, root: Root) -> Self {
        let mut walk =
            Self { search, root, channels: BTreeMap::new(), is_circling: false, commands: Vec::new() };
        for (from, to, message, is_void) in walk.search.first_sends() {
            walk.note_send(from, to, message, is_void);
        }
        walk
    }

    /// Takes the step of this number in a state of the search.
    pub fn step(&mut self, state: u32, nth: u16) {
        let (action, target) = self.search.step_of(state, nth);
        // With numbers that were moved down, messages may stand in another order than they really do.
        let candidates = self.search.raw_actions(&self.root);
        let same_kind = |other: &Action| {
            core::mem::discriminant(other) == core::mem::discriminant(&action)
                && other.process() == action.process()
        };
        let found = candidates.into_iter().filter(same_kind).find_map(|action| {
            let step = self.search.raw_step(&self.root, action);
            (step.normal == target).then_some((action, step))
        });
        let (action, step) = found.expect("the search took this step");
        // What makes the process take the step in which it crashes.
        let cause = match action {
            Action::Interrupt { step, .. } => self.search.raw_actions(&self.root)[usize::from(step)],
            other => other,
        };
        let place = match cause {
            Action::Deliver(at) | Action::Drop(at) | Action::Duplicate(at) => self.find(at),
            _ => 0,
        };
        let command = self.command(cause);
        if let (Action::Interrupt { place, .. }, Some(after)) = (action, step.interrupted) {
            self.commands.push(Command::CrashInside { process: self.id(place), after });
        }
        self.take(cause, step, place, command);
        if let Action::Interrupt { place, .. } = action {
            self.void(place);
        }
        // What was meant for an earlier life stands in the way of what is meant for this one.
        if let Action::Restart { place } = cause {
            self.drop_void(Some(usize::from(place)));
        }
        if self.is_circling {
            self.drop_void(None);
        }
    }

    /// From here on everything repeats.
    pub fn begin_circle(&mut self) {
        self.drop_void(None);
        self.is_circling = true;
        self.commands.push(Command::Loop);
    }

    /// Takes out what will not arrive, to one process or to all.
    fn drop_void(&mut self, to: Option<usize>) {
        let pairs: Vec<_> = self.channels.keys().copied().collect();
        for ends in pairs.into_iter().filter(|(_, receiver)| to.is_none_or(|to| to == *receiver)) {
            while let Some(place) = self.channels[&ends].letters.iter().position(|letter| letter.is_void) {
                self.drop_at(ends, place);
            }
        }
    }

    /// Takes a message out of its channel, by a command.
    fn drop_at(&mut self, (from, to): (usize, usize), place: usize) {
        let which = self.which(&self.channels[&(from, to)].letters, place);
        let members = &self.search.terms().members;
        let (sender, receiver) = (members.at(from), members.at(to));
        self.commands.push(Command::Carry { what: Carry::Drop, from: sender, to: receiver, which });
        self.channels.get_mut(&(from, to)).expect("the message is in it").letters.remove(place);
    }

    /// How many commands lead to where the search begins.
    pub fn led(&self) -> usize {
        self.search.start.as_ref().map_or(0, |start| start.commands.len())
    }

    /// Where it has come to.
    pub fn into_start(self) -> Start {
        Start { root: self.root, channels: self.channels, commands: self.commands }
    }

    /// Does what a command of a recorded run says, or says why it cannot be done.
    pub fn follow(&mut self, command: &Command) -> Result<(), String> {
        if self.carry_void(command) {
            self.commands.push(command.clone());
            return Ok(());
        }
        if let Command::Restart { amnesia, .. } = command {
            self.search.space.terms_mut().budgets.amnesia = *amnesia;
        }
        let actions = self.search.raw_actions(&self.root);
        let action = actions.into_iter().find(|action| self.means(*action, command));
        let action = action.ok_or_else(|| format!("`{command}` is not possible at its place"))?;
        let step = self.search.raw_step(&self.root, action);
        if let Some(broken) = self.search.last_broken() {
            return Err(format!("{} is broken before: {}", broken.property, broken.detail));
        }
        let place = self.named(command).unwrap_or(0);
        self.take(action, step, place, Some(command.clone()));
        Ok(())
    }

    /// Whether a command loses or copies a message that cannot arrive anyway; if so, it is done.
    fn carry_void(&mut self, command: &Command) -> bool {
        let Some(place) = self.named(command) else { return false };
        let Command::Carry { what, from, to, .. } = command else { return false };
        let Some(ends) = self.pair(*from, *to) else { return false };
        let letters = &mut self.channels.get_mut(&ends).expect("the message is in it").letters;
        if !letters[place].is_void {
            return false;
        }
        match what {
            Carry::Deliver => return false,
            Carry::Drop => drop(letters.remove(place)),
            Carry::Duplicate => letters.insert(place + 1, letters[place].clone()),
        }
        true
    }

    fn pair(&self, from: NodeId, to: NodeId) -> Option<(usize, usize)> {
        let members = &self.search.terms().members;
        Some((members.position(from)?, members.position(to)?))
    }

    /// The place, in its channel, of the message that a command names by its number.
    fn named(&self, command: &Command) -> Option<usize> {
        let Command::Carry { from, to, which: Which::Nth(nth), .. } = command else { return None };
        let letters = &self.channels.get(&self.pair(*from, *to)?)?.letters;
        letters.iter().position(|letter| letter.nth == *nth)
    }

    /// Whether a command stands for an action.
    fn means(&self, action: Action, command: &Command) -> bool {
        let (at, does) = match action {
            Action::Deliver(at) => (at, Carry::Deliver),
            Action::Drop(at) => (at, Carry::Drop),
            Action::Duplicate(at) => (at, Carry::Duplicate),
            // A recorded run names each loss of a crash as a loss of its own.
            Action::Crash { loss, .. } if loss > 0 => return false,
            _ => return self.command(action).as_ref() == Some(command),
        };
        let Command::Carry { what, from, to, .. } = command else { return false };
        let Some(place) = self.named(command) else { return false };
        if *what != does || self.pair(*from, *to) != Some(ends(at)) {
            return false;
        }
        let (from, to) = ends(at);
        let letters = &self.channels[&(from, to)].letters;
        let content = self.search.space.letters(&self.root, from, to);
        let nth = usize::from(at.nth);
        match self.search.terms().fifo {
            // Of equal messages in a row only the first is listed.
            true => {
                let living = letters[..place].iter().filter(|letter| !letter.is_void).count();
                let row = content.get(nth..=living).unwrap_or_default();
                !row.is_empty() && row.iter().all(|letter| *letter == row[0])
            }
            false => content[nth].message() == letters[place].message,
        }
    }

    /// Takes a step; `place` is that of its message in its channel, if it has one.
    fn take(&mut self, action: Action, step: RawStep, place: usize, command: Option<Command>) {
        match action {
            Action::Deliver(at) | Action::Drop(at) => {
                self.channels.get_mut(&ends(at)).expect("the message is in it").letters.remove(place);
            }
            Action::Duplicate(at) => {
                let channel = self.channels.get_mut(&ends(at)).expect("the message is in it");
                let Travelling { nth, message, .. } = channel.letters[place];
                channel.letters.insert(place + 1, Travelling { nth, message, is_void: false });
            }
            Action::Crash { place, .. } => self.void(place),
            Action::Ask { .. }
            | Action::Timer { .. }
            | Action::Notice { .. }
            | Action::Restart { .. }
            | Action::Suspect { .. }
            | Action::Interrupt { .. }
            | Action::Tick => {}
        }
        for (from, to, message, is_void) in step.sends {
            self.note_send(from, to, message, is_void);
        }
        self.root = step.root;
        self.commands.extend(command);
        // The last first: what is lost of a channel that keeps its order is the end of it.
        for (from, to, message) in step.lost.into_iter().rev() {
            self.lose(from, to, message);
        }
    }

    /// What is in flight to a process that has crashed will not arrive.
    fn void(&mut self, place: u8) {
        for ((_, to), channel) in &mut self.channels {
            if *to == usize::from(place) {
                channel.letters.iter_mut().for_each(|letter| letter.is_void = true);
            }
        }
    }

    /// A message is lost with the process that had sent it.
    fn lose(&mut self, from: usize, to: usize, message: u32) {
        let letters = &self.channels[&(from, to)].letters;
        let found = letters.iter().rposition(|letter| !letter.is_void && letter.message == message);
        let place = found.expect("every letter was noted when it was sent");
        self.drop_at((from, to), place);
    }

    fn note_send(&mut self, from: usize, to: usize, message: u32, is_void: bool) {
        let channel = self.channels.entry((from, to)).or_default();
        channel.sent += 1;
        channel.letters.push(Travelling { nth: channel.sent, message, is_void });
    }

    fn id(&self, place: u8) -> NodeId {
        self.search.terms().members.at(usize::from(place))
    }

    fn command(&self, action: Action) -> Option<Command> {
        let space = &*self.search.space;
        let meta = |place: u8| space.meta(&self.root, usize::from(place));
        Some(match action {
            Action::Ask { place, nth } => {
                let (request, lock) = space.request(&self.root, usize::from(place), usize::from(nth));
                Command::Ask { process: self.id(place), request, lock }
            }
            Action::Timer { place, nth } => Command::Timer {
                process: self.id(place),
                timer: space.timer(&self.root, usize::from(place), usize::from(nth)),
            },
            Action::Notice { place, peer } => {
                let theirs = meta(peer);
                let heard = meta(place).heard[usize::from(peer)];
                let due = heard.due(theirs.life, theirs.is_up, space.terms().detector);
                let due = due.expect("it was listed as due");
                let (process, peer) = (self.id(place), self.id(peer));
                let life = (due.life != theirs.life).then_some(due.life);
                match due.is_down {
                    true => Command::Suspect { process, peer, life },
                    false => Command::Trust { process, peer, life },
                }
            }
            Action::Suspect { place, peer } => {
                Command::Suspect { process: self.id(place), peer: self.id(peer), life: None }
            }
            Action::Deliver(at) => self.carry(Carry::Deliver, at),
            Action::Drop(at) => self.carry(Carry::Drop, at),
            Action::Duplicate(at) => self.carry(Carry::Duplicate, at),
            Action::Crash { place, .. } => Command::Crash(self.id(place)),
            Action::Restart { place } => {
                Command::Restart { process: self.id(place), amnesia: self.search.terms().budgets.amnesia }
            }
            Action::Interrupt { .. } | Action::Tick => return None,
        })
    }

    fn carry(&self, what: Carry, at: Place) -> Command {
        let place = self.find(at);
        let which = self.which(&self.channels[&ends(at)].letters, place);
        Command::Carry { what, from: self.id(at.from), to: self.id(at.to), which }
    }

    /// The plainest way to name a message of a channel.
    fn which(&self, letters: &[Travelling], place: usize) -> Which {
        let kind = |letter: &Travelling| self.search.space.kind(letter.message);
        let mine = kind(&letters[place]);
        if place == 0 {
            Which::Oldest
        } else if !letters[..place].iter().any(|letter| kind(letter) == mine) {
            Which::Kind(mine.into())
        } else {
            Which::Nth(letters[place].nth)
        }
    }

    /// The place of a message among those of its channel, in the order in which they were sent.
    fn find(&self, at: Place) -> usize {
        let (from, to) = ends(at);
        let letters = &self.channels[&(from, to)].letters;
        let letter = self.search.space.letters(&self.root, from, to)[usize::from(at.nth)];
        let mut living = letters.iter().enumerate().filter(|(_, letter)| !letter.is_void);
        let found = match self.search.terms().fifo {
            true => living.nth(usize::from(at.nth)),
            false => living.find(|(_, other)| other.message == letter.message()),
        };
        found.map(|(place, _)| place).expect("every letter was noted when it was sent")
    }
}

fn ends(at: Place) -> (usize, usize) {
    (usize::from(at.from), usize::from(at.to))
}

/// A step taken with the numbers as they are.
pub struct RawStep {
    /// Where it leads.
    pub root: Root,
    /// The same with the numbers moved down, where the search does so.
    pub normal: Root,
    /// What was sent: from, to, the message, and whether its receiver is down.
    pub sends: Vec<(usize, usize, u32, bool)>,
    /// What was lost with a process that crashed: from, to, the message.
    pub lost: Vec<(usize, usize, u32)>,
    /// After how many effects of its step the process crashed, if it crashed inside one.
    pub interrupted: Option<u32>,
    /// Whether it breaks a promise.
    pub is_broken: bool,
}
