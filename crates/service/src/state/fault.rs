//! Faults on purpose, for tests that must show that they would notice. Without the feature `faults` no state suffers any.

use super::State;

/// What a mutant of the service does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(serde::Serialize, serde::Deserialize))]
pub enum Fault {
    /// It does not remember which requests it has seen: one that is sent again acts again.
    ForgetRequests,
    /// It grants what others hold.
    GrantTwice,
    /// It grants past those who have waited longer.
    Overtake,
    /// It lets a wait close a cycle.
    CloseCycles,
    /// It takes the floor of a batch for the last token, also where that is greater.
    LowerTokens,
    /// It keeps requests of sessions that ended in the queues.
    KeepGhosts,
    /// It remembers every reply behind a request that waits.
    RememberBehindWaits,
    /// It remembers replies to requests that waited although the client has them.
    KeepSettled,
    /// It refuses a release when it remembers too much.
    RefuseReleases,
    /// It opens a new session for a client that lost the one it had.
    ReviveSessions,
    /// A client that connects again loses its places in the queues.
    LosePlaces,
    /// It hears what former runs of a client still say.
    HearFormerRuns,
    /// It lets a request act that it refused for lack of room, when that arrives again.
    ForgetRefusals,
    /// It does not know the token that a conversion exchanged.
    ForgetExchanged,
    /// It repeats a grant that was taken away since, and says nothing of that.
    HideLosses,
    /// It believes a client that has replies which are still to come.
    BelieveAcknowledgements,
    /// It begins no lock delay.
    NoDelays,
    /// It serves all in the order of arrival, whatever their priority.
    IgnorePriorities,
    /// It takes what a client holds away when that connects again.
    LoseHeld,
    /// It hands the lead over to whoever waited longest.
    MissHeirs,
    /// It goes on showing the value with which a leader was elected.
    KeepValues,
    /// It tells nobody that another one waits.
    HideWaiters,
}

#[cfg(feature = "faults")]
impl State {
    /// A state that does one thing wrong.
    #[must_use]
    pub fn with_fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    pub(super) fn suffers(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

#[cfg(not(feature = "faults"))]
impl State {
    #[expect(clippy::unused_self, reason = "with the feature it is asked")]
    pub(super) const fn suffers(&self, _fault: Fault) -> bool {
        false
    }
}
