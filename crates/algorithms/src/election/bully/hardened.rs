//! The hardened mode: numbered announcements, and a majority behind every leader.
//!
//! An announcement is a [`Claim`] to a term. Every process knows one claim, the latest that it has heard of, and keeps
//! it on stable storage before it acts on it; of two claims to one term it takes the first, and refuses the second.
//!
//! ```text
//!   caller                          the others
//!     │ Sync ─────────────────────────▶ │        before it calls: so that its term is later
//!     │ ◀──────────── Synced(claim) ─── │        than any that was acknowledged
//!     │        Election, Answer         │        as in plain mode
//!     │ Coordinator(term + 1) ────────▶ │
//!     │ ◀─────────────── Ack(term) ──── │        a majority of all members: it leads
//!     │ ◀─────────────── Nack(claim) ── │        or: begin again, with a later term
//! ```
//!
//! - Two majorities share a process, and that has acknowledged one claim per term: no term has two leaders that act.
//! - A late announcement is known by its term, refused, and does no harm. Whoever made it begins again, and in doing so
//!   meets whoever is above it. An election that is divided by an id that returns therefore ends with that id.
//! - A process that is above a claimant does not acknowledge it, but takes the office from it in a later term.
//!
//! Between an announcement and its acknowledgement, others may already follow a process that never comes to lead, and
//! two of them two different ones in the same term. Outside, a claim is therefore known by a number of its own, made of
//! the term and the place of the claimant among the members; like the terms of those who lead, it only grows.
//!
//! **Caveats**: a process that loses its storage may acknowledge twice in one term. Without a living majority, an election
//! does not end: the highest announces itself again and again, each time with a new term.

use conclave_core::{After, Effects, NodeId, NodeSet};

use super::{Bully, BullyTimer, Claim, Msg, Stage};

impl Bully {
    pub(super) fn become_syncing(&mut self, out: &mut impl Effects<Self>) {
        self.stage = Stage::Syncing;
        out.send_all(self.members.others(self.id), &Msg::Sync);
        out.arm(BullyTimer::Answer, After::exactly(self.answer_timeout()));
    }

    pub(super) fn on_synced(&mut self, claim: Claim) {
        // Afterwards we may follow somebody, and what was known before does not matter.
        if self.stage == Stage::Syncing {
            self.witness(claim);
        }
    }

    /// Announces ourselves in a new term; once more if no majority has acknowledged the last.
    pub(super) fn become_announcing(&mut self, out: &mut impl Effects<Self>) {
        debug_assert!(!self.retired.contains(self.id), "one who has retired does not stand for election");
        // Only a liar has counted this far; standing still there is better than going back.
        self.known = Claim { term: self.known.term.saturating_add(1), leader: self.id };
        out.save(self.known);
        self.stage = Stage::Announcing { acks: NodeSet::from_iter([self.id]) };
        self.announce(out);
        out.arm(BullyTimer::Answer, After::exactly(self.answer_timeout()));
        self.maybe_lead(out);
    }

    pub(super) fn on_ack(&mut self, from: NodeId, term: u64, out: &mut impl Effects<Self>) {
        if term == self.known.term
            && let Stage::Announcing { acks } = &mut self.stage
        {
            acks.insert(from);
            self.maybe_lead(out);
        }
    }

    fn maybe_lead(&mut self, out: &mut impl Effects<Self>) {
        if let Stage::Announcing { acks } = &self.stage
            && acks.len() > self.members.len() / 2
        {
            self.adopt(self.known, out);
        }
    }

    pub(super) fn on_claim(&mut self, claim: Claim, out: &mut impl Effects<Self>) {
        let acceptable = claim.term > self.known.term || claim == self.known;
        match (acceptable, self.gives_way_to(claim.leader)) {
            (true, true) => {
                self.known = claim;
                out.save(claim);
                self.adopt(claim, out);
                out.send(claim.leader, Msg::Ack { term: claim.term });
            }
            // Somebody below us does not know that we are alive. Its followers leave it for a later term only, so a
            // claim of our own that is under way is void.
            (true, false) => {
                self.witness(claim);
                if let Stage::Announcing { .. } = self.stage {
                    self.start_over(out);
                } else {
                    self.start(out);
                }
            }
            (false, above) => {
                out.send(claim.leader, Msg::Nack(self.known));
                // It will be back with a later term. If we went on, we could be ahead of it forever.
                if let (Stage::Announcing { .. }, true) = (&self.stage, above) {
                    self.become_awaiting_coordinator(out);
                }
            }
        }
    }

    pub(super) fn on_nack(&mut self, refusal: Claim, out: &mut impl Effects<Self>) {
        // Only a claim that we still make can be refused: later ones have been made by starting over.
        if self.claims_office() && refusal.term >= self.known.term && refusal != self.known {
            self.witness(refusal);
            self.start_over(out);
        }
    }

    /// Takes note of a later claim without acknowledging it.
    fn witness(&mut self, claim: Claim) {
        if claim.term > self.known.term {
            self.known = claim;
        }
    }
}
