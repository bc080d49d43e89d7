//! The list of all algorithms.
//!
//! A new algorithm is one file and one line here.

use alloc::vec::Vec;

use crate::election::{self, Election};
use crate::mutex::{self, Mutex};
use crate::{About, Algorithm};

/// What a program does with an algorithm whose name it learnt at run time.
///
/// The algorithms are different types; a visitor is the generic function that the registry calls with the right
/// one.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Called with an algorithm for mutual exclusion.
    fn mutex<A: Mutex>(self) -> Self::Output;

    /// Called with an algorithm for elections.
    fn election<A: Election>(self) -> Self::Output;
}

macro_rules! registry {
    ($($family:ident { $($algorithm:ty),+ $(,)? })+) => {
        /// Every algorithm, family by family.
        #[must_use]
        pub fn all() -> Vec<&'static About> {
            alloc::vec![$($(const { &<$algorithm as Algorithm>::ABOUT },)+)+]
        }

        /// Calls the visitor with the algorithm of this name, if there is one.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $($(if name == <$algorithm as Algorithm>::ABOUT.name {
                return Some(visitor.$family::<$algorithm>());
            })+)+
            None
        }
    };
}

registry! {
    mutex {
        mutex::Central,
        mutex::Lamport,
        mutex::RicartAgrawala,
        mutex::CarvalhoRoucairol,
        mutex::Maekawa,
        mutex::Majority,
        mutex::RicartAgrawalaToken,
        mutex::SuzukiKasami,
        mutex::TokenRing,
        mutex::Raymond,
        mutex::Singhal,
    }
    election {
        election::Bully,
        election::ChangRoberts,
        election::RingActiveList,
        election::RingList,
        election::RingKLeaders,
        election::RingBallot,
    }
}

/// The algorithm of this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static About> {
    all().into_iter().find(|about| about.name == name)
}
