//! Finds the algorithm of a setup, and what a stage for it needs, whatever its family.

use std::collections::BTreeSet;

use conclave_algorithms::election::{self, Election};
use conclave_algorithms::family::{Electing, Family, Locking};
use conclave_algorithms::mutex::{self, Mutex};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{
    Algorithm, Arena, Channels, Named, NamedConfig, Recovering, SettingError, Settings, recovers,
};
use conclave_core::{Members, NodeId, Protocol};
use conclave_trace::{Header, Setup};

use crate::script::PlayError;

/// Everything that a stage for an algorithm needs.
pub struct Cast<F: Family> {
    /// Who plays from the beginning.
    pub members: Members,
    /// Who may join later.
    pub newcomers: Vec<NodeId>,
    /// Whether messages travel for ever although nobody wants anything.
    pub restless: bool,
    /// The settings of the algorithm.
    pub config: <F::Protocol as Protocol>::Config,
    /// Whether channels keep their order.
    pub fifo: bool,
    /// Who judges.
    pub judge: F::Judge,
    /// What a trace of it says at its top.
    pub header: Header,
}

impl<F: Family> Cast<F> {
    /// The same once more.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            members: self.members.clone(),
            newcomers: self.newcomers.clone(),
            restless: self.restless,
            config: self.config.clone(),
            fifo: self.fifo,
            judge: self.judge.clone(),
            header: self.header.clone(),
        }
    }
}

/// Something to be done with a cast, whatever the family.
pub trait WithCast {
    /// What comes of it.
    type Output;

    /// Called with the cast.
    fn with<F: Family>(self, cast: Cast<F>) -> Self::Output;
}

/// Finds the algorithm of a setup and hands over the cast for it, in which these may join.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so.
pub fn cast<W: WithCast>(setup: &Setup, newcomers: &[NodeId], user: W) -> Result<W::Output, PlayError> {
    let found = registry::visit(&setup.algorithm, Caster { setup, newcomers, user });
    Ok(found.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

struct Caster<'a, W> {
    setup: &'a Setup,
    newcomers: &'a [NodeId],
    user: W,
}

impl<W> Caster<'_, W> {
    /// Who may join, each named once and none of them there already.
    fn newcomers(&self, changes_group: bool) -> Result<Vec<NodeId>, SettingError> {
        let unfit = |why: String| Err(SettingError::Unfit(why));
        if self.newcomers.is_empty() {
            return Ok(Vec::new());
        }
        if !changes_group {
            return unfit(format!("{} lets nobody join or leave", self.setup.algorithm));
        }
        let there: BTreeSet<NodeId> = self.setup.nodes.iter().copied().collect();
        if let Some(process) = self.newcomers.iter().find(|process| there.contains(process)) {
            return unfit(format!("{process} is one of the processes already and cannot join"));
        }
        let mut seen = BTreeSet::new();
        Ok(self.newcomers.iter().copied().filter(|process| seen.insert(*process)).collect())
    }

    fn one_lock<A: Mutex>(&self) -> Result<Cast<Locking<A>>, SettingError> {
        let newcomers = self.newcomers(A::CHANGES_GROUP && self.setup.locks == 1)?;
        let (members, config, mut header) = prepare::<A>(self.setup)?;
        header.nodes.extend(&newcomers);
        header.newcomers.clone_from(&newcomers);
        let fifo = header.channels == Channels::Fifo.name();
        let restless = A::is_restless(&config);
        let judge = mutex::Properties::new::<A>(&config, &members, self.setup.locks, None);
        let judge = judge.with_newcomers(&newcomers);
        Ok(Cast { members, newcomers, restless, config, fifo, judge, header })
    }
}

impl<W: WithCast> Visitor for Caster<'_, W> {
    type Output = Result<W::Output, SettingError>;

    fn mutex<A: Mutex>(self) -> Self::Output {
        let locks = self.setup.locks;
        let members = Members::listed(self.setup.nodes.clone());
        if recovers::<A>(&settings_of::<A>(self.setup)?, &members) {
            let cast = self.one_lock::<Recovering<A>>()?;
            return Ok(if locks == 1 { self.user.with(cast) } else { self.user.with(cast.named()) });
        }
        let cast = self.one_lock::<A>()?;
        Ok(if locks == 1 { self.user.with(cast) } else { self.user.with(cast.named()) })
    }

    fn election<A: Election>(self) -> Self::Output {
        if self.setup.locks > 1 {
            return Err(SettingError::Unfit("an election has no locks".into()));
        }
        let newcomers = self.newcomers(false)?;
        let (members, config, header) = prepare::<A>(self.setup)?;
        let fifo = header.channels == Channels::Fifo.name();
        let judge = election::Properties::new(&config, &members);
        let restless = false;
        Ok(self.user.with(Cast::<Electing<A>> { members, newcomers, restless, config, fifo, judge, header }))
    }
}

impl<A: Mutex> Cast<Locking<A>> {
    /// Several locks by the same algorithm.
    fn named(self) -> Cast<Locking<Named<A>>> {
        let Self { members, newcomers, restless, config, fifo, judge, header } = self;
        Cast { members, newcomers, restless, config: NamedConfig::new(config), fifo, judge, header }
    }
}

fn prepare<A: Algorithm>(setup: &Setup) -> Result<(Members, A::Config, Header), SettingError> {
    let settings = settings_of::<A>(setup)?;
    let members = Members::listed(setup.nodes.clone());
    let config = A::configure(&settings, &members)?;
    Ok((members, config, setup.to_header(A::ABOUT.channels.name())))
}

/// The settings of a setup, held against what the algorithm declares.
pub(crate) fn settings_of<A: Algorithm>(setup: &Setup) -> Result<Settings, SettingError> {
    let given = setup.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Settings::new(const { &A::ABOUT }, Arena::Laboratory, given, setup.mutant.as_deref())
}
