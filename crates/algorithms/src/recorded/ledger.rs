//! Judges whether a snapshot is a state that the group could have been in.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId};

use super::{Cut, Part, Recordable, Recorded, RecordedMessage, Snapshot, Standing, Telling};
use crate::judge::{Breach, Ledger};

/// What has to be remembered in order to judge snapshots.
///
/// It keeps what the driver sees: the states, and the messages in flight. Of each snapshot that is under way it keeps the
/// group as it would be if only the steps before the cut had been taken: the states that were recorded, and what was
/// sent before the cut and is not received before it. A message that is received before the cut must be among those; and
/// what a process records of its channels must be what is left.
///
/// If that holds, the steps before the cut are a run by themselves, and lead to what was recorded: the cut is reachable.
/// And what is after it goes on from there to where the group is now, since whatever is received after the cut was sent
/// after it or is left in a channel.
///
/// Nothing is judged any more once a process has failed or a message was lost: snapshots assume that this does not happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cuts<P: Recordable> {
    members: Members,
    /// The state of each process after its last step, by place.
    states: Vec<Option<P>>,
    flying: Flying<P>,
    past: BTreeMap<Snapshot, Past<P>>,
    /// What was broken by the input that is being handled.
    noticed: Option<String>,
    disturbed: bool,
}

/// What is in flight, by places of sender and receiver; empty channels are left out.
type Flying<P> = BTreeMap<(usize, usize), Vec<<P as conclave_core::Protocol>::Message>>;

/// The group as only the steps before a cut have made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Past<P: Recordable> {
    /// What each process has recorded of itself, by place.
    standings: Vec<Option<P>>,
    flying: Flying<P>,
    /// What was recorded of channels whose senders have not recorded themselves.
    early: Flying<P>,
    /// How many processes have recorded their channels.
    closed: usize,
}

impl<P: Recordable> Cuts<P> {
    /// Nothing has happened.
    #[must_use]
    pub fn new(members: &Members) -> Self {
        Self {
            members: members.clone(),
            states: vec![None; members.len()],
            flying: BTreeMap::new(),
            past: BTreeMap::new(),
            noticed: None,
            disturbed: false,
        }
    }

    fn give_up(&mut self) {
        self.disturbed = true;
        self.flying.clear();
        self.past.clear();
        self.noticed = None;
        self.states.fill(None);
    }

    /// A message is received: out of the channel, and of every past to which this still belongs.
    fn receive(&mut self, from: NodeId, to: usize, message: &P::Message) {
        let Some(sender) = self.members.position(from) else { return };
        take(&mut self.flying, (sender, to), message);
        for (snapshot, past) in &mut self.past {
            if past.standings[to].is_none() && !take(&mut past.flying, (sender, to), message) {
                let receiver = self.members.at(to);
                self.noticed.get_or_insert(format!(
                    "in snapshot {snapshot} {receiver} has received what {from} has not sent"
                ));
            }
        }
    }

    fn saved(&mut self, place: usize, snapshot: Snapshot, state: &P) -> Option<String> {
        let n = self.members.len();
        let past = self.past.entry(snapshot).or_insert_with(|| Past {
            standings: vec![None; n],
            flying: self.flying.clone(),
            early: BTreeMap::new(),
            closed: 0,
        });
        past.standings[place] = Some(state.clone());
        let who = self.members.at(place);
        if self.states[place].as_ref() != Some(state) {
            return Some(format!("snapshot {snapshot} has a state of {who} in which it was not"));
        }
        // Whoever believed too early to know what was in flight from here.
        let early: Vec<_> = past.early.keys().copied().filter(|(from, _)| *from == place).collect();
        early.into_iter().find_map(|channel| {
            let recorded = past.early.remove(&channel).unwrap_or_default();
            compare(&self.members, snapshot, past, channel, &recorded)
        })
    }

    fn closed(
        &mut self,
        place: usize,
        snapshot: Snapshot,
        channels: &BTreeMap<NodeId, Vec<P::Message>>,
    ) -> Option<String> {
        let past = self.past.get_mut(&snapshot)?;
        past.closed += 1;
        channels.iter().find_map(|(from, recorded)| {
            let channel = (self.members.position(*from)?, place);
            if past.standings[channel.0].is_none() {
                past.early.insert(channel, recorded.clone());
                return None;
            }
            compare(&self.members, snapshot, past, channel, recorded)
        })
    }

    /// The cut as it was announced is what was recorded.
    fn complete(&mut self, cut: &Cut) -> Option<String> {
        let snapshot = cut.snapshot;
        let past = self.past.remove(&snapshot)?;
        if past.closed < self.members.len() {
            return Some(format!("snapshot {snapshot} is complete before all have recorded"));
        }
        self.members.iter().zip(&past.standings).enumerate().find_map(|(to, (who, state))| {
            let mut channels = BTreeMap::new();
            for ((from, _), messages) in past.flying.iter().filter(|((_, place), _)| *place == to) {
                channels.insert(self.members.at(*from), messages.clone());
            }
            let announced = cut.parts.get(&who)?.as_ref();
            let timers = announced.map_or(0, |part| part.standing.timers);
            let expected = state
                .as_ref()
                .map(|state| Part::of::<P>(Standing::of(state, timers as usize, cut.moves_token), &channels));
            let sorted = |part: Option<&Part>| {
                part.cloned().map(|mut part| {
                    part.channels.values_mut().for_each(|channel| channel.sort());
                    part
                })
            };
            (sorted(announced) != sorted(expected.as_ref()))
                .then(|| format!("snapshot {snapshot} was announced with another part of {who}"))
        })
    }
}

/// Takes a message out of a channel, if it is there.
fn take<M: PartialEq>(
    flying: &mut BTreeMap<(usize, usize), Vec<M>>,
    channel: (usize, usize),
    message: &M,
) -> bool {
    let Some(messages) = flying.get_mut(&channel) else { return false };
    let Some(place) = messages.iter().position(|other| other == message) else { return false };
    messages.remove(place);
    if messages.is_empty() {
        flying.remove(&channel);
    }
    true
}

/// What was recorded of a channel must be what was sent before the cut and not received before it.
fn compare<P: Recordable>(
    members: &Members,
    snapshot: Snapshot,
    past: &Past<P>,
    channel: (usize, usize),
    recorded: &[P::Message],
) -> Option<String> {
    let kinds = |messages: &[P::Message]| {
        let mut kinds: Vec<_> = messages.iter().map(conclave_core::Message::kind).collect();
        kinds.sort_unstable();
        match kinds.is_empty() {
            true => "nothing".to_string(),
            false => kinds.join(", "),
        }
    };
    let left = past.flying.get(&channel).map(Vec::as_slice).unwrap_or_default();
    let sorted = |messages: &[P::Message]| {
        let mut messages = messages.to_vec();
        messages.sort();
        messages
    };
    let (from, to) = (members.at(channel.0), members.at(channel.1));
    (sorted(left) != sorted(recorded)).then(|| {
        format!(
            "snapshot {snapshot} has {} in flight from {from} to {to}, and there was {}",
            kinds(recorded),
            kinds(left)
        )
    })
}

impl<P: Recordable> Ledger<Recorded<P>> for Cuts<P> {
    fn process(&self, place: usize) -> NodeId {
        self.members.at(place)
    }

    fn promises(&self, property: &str) -> bool {
        property != "CUT" || !self.disturbed
    }

    fn input(&mut self, place: usize, input: &Input<Recorded<P>>) {
        match input {
            Input::Receive { from, message: RecordedMessage::Algorithm { message } } if !self.disturbed => {
                self.receive(*from, place, message);
            }
            Input::PeerDown { .. } => self.give_up(),
            _ => {}
        }
    }

    fn sent(&mut self, from: usize, to: usize, message: &RecordedMessage<P::Message>) {
        let RecordedMessage::Algorithm { message } = message else { return };
        if self.disturbed {
            return;
        }
        self.flying.entry((from, to)).or_default().push(message.clone());
        for past in self.past.values_mut().filter(|past| past.standings[from].is_none()) {
            past.flying.entry((from, to)).or_default().push(message.clone());
        }
    }

    fn emit(&mut self, place: usize, event: &Telling<P>, breaches: &mut Vec<Breach>) {
        if self.disturbed {
            return;
        }
        let broken = match event {
            Telling::Algorithm(_) => None,
            Telling::Saved { snapshot, state } => self.saved(place, *snapshot, state),
            Telling::Closed { snapshot, channels } => self.closed(place, *snapshot, channels),
            Telling::Complete(cut) => self.complete(cut),
        };
        breaches.extend(broken.map(breach));
    }

    fn handled(&mut self, place: usize, state: &Recorded<P>, breaches: &mut Vec<Breach>) {
        breaches.extend(self.noticed.take().map(breach));
        if !self.disturbed {
            self.states[place] = Some(state.inner().clone());
        }
    }

    fn crash(&mut self, _place: usize) {
        self.give_up();
    }

    fn restart(&mut self, _place: usize, _life: Incarnation) {}

    fn disturb(&mut self) {
        self.give_up();
    }

    fn unheard(&mut self) {
        self.give_up();
    }

    fn quiet(&self, _breaches: &mut Vec<Breach>) {}
}

fn breach(detail: String) -> Breach {
    Breach { property: "CUT", detail, promised: true }
}
