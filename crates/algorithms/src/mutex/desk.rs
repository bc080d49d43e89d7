//! The clients of the locks of a live process: they stand in line, a line per lock, and the desk asks on behalf of the
//! first.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;

use super::{Event, Fence, Locks, Request};
use crate::Name;
use crate::desk::{Client, Deed, Desk, LockStanding, Standing, Wish, Word};

/// Locks, each with its line.
#[derive(Debug, Default)]
pub struct LocksDesk {
    lines: BTreeMap<Name, Line>,
    served: u64,
}

/// The clients who want one lock.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Client>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Outside,
    /// The algorithm was asked. If nobody waits any more when it grants, the lock is given back at once.
    Asked,
    Inside {
        client: Client,
        fence: Fence,
    },
}

impl Line {
    fn is_holding(&self, who: Client) -> bool {
        matches!(self.stage, Stage::Inside { client, .. } if client == who)
    }
}

fn ask<L: Locks>(name: &Name, request: Request) -> Deed<L> {
    Deed::Ask(L::ask_named(name, request))
}

impl LocksDesk {
    /// Asks the algorithm if somebody waits and it was not asked yet.
    fn go_on<L: Locks>(&mut self, name: &Name, out: &mut Vec<Deed<L>>) {
        let Some(line) = self.lines.get_mut(name) else { return };
        if line.stage == Stage::Outside {
            if line.waiting.is_empty() {
                self.lines.remove(name);
            } else {
                line.stage = Stage::Asked;
                out.push(ask::<L>(name, Request::Acquire));
            }
        }
    }

    /// A client steps out of a line, wherever in it it stands. False if it is not there.
    fn step_out<L: Locks>(&mut self, name: &Name, client: Client, out: &mut Vec<Deed<L>>) -> bool {
        let Some(line) = self.lines.get_mut(name) else { return false };
        let place = line.waiting.iter().position(|waiting| *waiting == client);
        if let Some(place) = place {
            line.waiting.remove(place);
        } else if line.is_holding(client) {
            line.stage = Stage::Outside;
            out.push(ask::<L>(name, Request::Release));
        } else {
            return false;
        }
        self.go_on(name, out);
        true
    }
}

impl<L: Locks> Desk<L> for LocksDesk {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<L>>) {
        let word = match wish {
            Wish::Lock { name } => {
                let line = self.lines.entry(name.clone()).or_default();
                if line.is_holding(client) || line.waiting.contains(&client) {
                    Word::Refused { why: format!("this client holds {name} or waits for it already") }
                } else {
                    line.waiting.push_back(client);
                    return self.go_on(&name, out);
                }
            }
            Wish::Unlock { name } if self.step_out(&name, client, out) => Word::Released { name },
            Wish::Unlock { name } => {
                Word::Refused { why: format!("this client neither holds {name} nor waits for it") }
            }
            Wish::Elect => Word::Refused { why: "this algorithm is for locks, and elects nobody".into() },
            // Whoever asks behind the back of the line would get a lock that the line gives back at once.
            Wish::Ask { .. } => {
                Word::Refused { why: "locks are asked for with 'lock', so that clients wait in line".into() }
            }
        };
        out.push(Deed::Tell(client, word));
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<L>>) {
        let names: Vec<Name> = self.lines.keys().cloned().collect();
        for name in names {
            self.step_out(&name, client, out);
        }
    }

    fn told(&mut self, event: L::Event, out: &mut Vec<Deed<L>>) {
        let name = L::name_told(&event).cloned().unwrap_or_else(|| Name::numbered(0));
        let event = *L::told(&event).1;
        let line = self.lines.entry(name.clone()).or_default();
        match event {
            Event::Granted { fence } => match line.waiting.pop_front() {
                Some(client) => {
                    line.stage = Stage::Inside { client, fence };
                    self.served += 1;
                    out.push(Deed::Tell(client, Word::Granted { name, fence }));
                    return;
                }
                None => {
                    line.stage = Stage::Outside;
                    out.push(ask::<L>(&name, Request::Release));
                }
            },
            Event::Lost { fence } => {
                if let Stage::Inside { client, fence: held } = line.stage
                    && held == fence
                {
                    line.stage = Stage::Outside;
                    out.push(Deed::Tell(client, Word::Lost { name: name.clone(), fence }));
                }
            }
            // Nothing else that we ask for could be refused, and we never leave.
            Event::Refused(request) => {
                if request == Request::Acquire && line.stage == Stage::Asked {
                    line.stage = Stage::Outside;
                    for client in core::mem::take(&mut line.waiting) {
                        let why = format!("too many names are in use at this process to ask for {name}, too");
                        out.push(Deed::Tell(client, Word::Refused { why }));
                    }
                }
            }
            Event::Left => {}
        }
        self.go_on(&name, out);
    }

    fn standing(&self) -> Standing {
        let standing = |(name, line): (&Name, &Line)| LockStanding {
            name: name.clone(),
            fence: match line.stage {
                Stage::Inside { fence, .. } => Some(fence),
                Stage::Outside | Stage::Asked => None,
            },
            waiting: line.waiting.len(),
        };
        Standing {
            locks: self.lines.iter().map(standing).collect(),
            served: self.served,
            ..Standing::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::{Central, Epoch};
    use crate::{Named, NamedEvent};
    use conclave_core::NodeId;

    type Deeds = Vec<Deed<Named<Central>>>;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a good name")
    }

    fn fence(counter: u64) -> Fence {
        Fence { epoch: Epoch::FIRST, counter, process: NodeId(1) }
    }

    fn lock(desk: &mut LocksDesk, client: Client) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::wish(desk, client, Wish::Lock { name: name("a") }, &mut out);
        out
    }

    fn unlock(desk: &mut LocksDesk, client: Client) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::wish(desk, client, Wish::Unlock { name: name("a") }, &mut out);
        out
    }

    fn told(desk: &mut LocksDesk, event: Event) -> Deeds {
        let mut out = Deeds::new();
        Desk::<Named<Central>>::told(desk, NamedEvent { name: name("a"), event }, &mut out);
        out
    }

    fn granted(client: Client, counter: u64) -> Deed<Named<Central>> {
        Deed::Tell(client, Word::Granted { name: name("a"), fence: fence(counter) })
    }

    fn asked(request: Request) -> Deed<Named<Central>> {
        ask::<Named<Central>>(&name("a"), request)
    }

    #[test]
    fn clients_get_in_one_by_one_in_the_order_of_their_coming() {
        let mut desk = LocksDesk::default();
        assert_eq!(lock(&mut desk, 1), [asked(Request::Acquire)]);
        assert_eq!(lock(&mut desk, 2), []);
        assert_eq!(told(&mut desk, Event::Granted { fence: fence(1) }), [granted(1, 1)]);
        let released = Deed::Tell(1, Word::Released { name: name("a") });
        let both = [asked(Request::Release), asked(Request::Acquire), released];
        assert_eq!(unlock(&mut desk, 1), both);
        assert_eq!(told(&mut desk, Event::Granted { fence: fence(2) }), [granted(2, 2)]);
    }

    #[test]
    fn who_is_gone_gives_back_what_it_has_and_wants_nothing() {
        let mut desk = LocksDesk::default();
        lock(&mut desk, 1);
        lock(&mut desk, 2);
        told(&mut desk, Event::Granted { fence: fence(1) });
        let mut out = Deeds::new();
        Desk::<Named<Central>>::gone(&mut desk, 2, &mut out);
        assert_eq!(out, []);
        Desk::<Named<Central>>::gone(&mut desk, 1, &mut out);
        assert_eq!(out, [asked(Request::Release)]);
        assert!(Desk::<Named<Central>>::standing(&desk).locks.is_empty());
    }

    #[test]
    fn a_grant_that_nobody_wants_any_more_is_given_back() {
        let mut desk = LocksDesk::default();
        lock(&mut desk, 1);
        Desk::<Named<Central>>::gone(&mut desk, 1, &mut Deeds::new());
        let back = told(&mut desk, Event::Granted { fence: fence(1) });
        assert_eq!(back, [asked(Request::Release)]);
        assert_eq!(lock(&mut desk, 2), [asked(Request::Acquire)]);
    }

    #[test]
    fn who_has_lost_the_lock_is_told_and_the_next_asks_again() {
        let mut desk = LocksDesk::default();
        lock(&mut desk, 1);
        lock(&mut desk, 2);
        told(&mut desk, Event::Granted { fence: fence(1) });
        let lost = Deed::Tell(1, Word::Lost { name: name("a"), fence: fence(1) });
        let deeds = told(&mut desk, Event::Lost { fence: fence(1) });
        assert_eq!(deeds, [lost, asked(Request::Acquire)]);
        assert!(matches!(&unlock(&mut desk, 1)[..], [Deed::Tell(1, Word::Refused { .. })]));
    }

    #[test]
    fn a_name_too_many_is_refused_with_a_reason() {
        let mut desk = LocksDesk::default();
        lock(&mut desk, 1);
        lock(&mut desk, 2);
        let deeds = told(&mut desk, Event::Refused(Request::Acquire));
        assert!(matches!(
            &deeds[..],
            [Deed::Tell(1, Word::Refused { .. }), Deed::Tell(2, Word::Refused { .. })]
        ));
        assert_eq!(lock(&mut desk, 3), [asked(Request::Acquire)], "perhaps there is room by now");
    }

    #[test]
    fn asking_twice_is_refused() {
        let mut desk = LocksDesk::default();
        lock(&mut desk, 1);
        assert!(matches!(&lock(&mut desk, 1)[..], [Deed::Tell(1, Word::Refused { .. })]));
        assert!(matches!(&unlock(&mut desk, 9)[..], [Deed::Tell(9, Word::Refused { .. })]));
    }
}
