//! The list of all families, and through them of all algorithms.
//!
//! A new algorithm is one file, and one line in the list of its family. A new family is one directory, and one line here.

use alloc::vec::Vec;

use crate::About;
use crate::family::Registered;

/// What a program does with an algorithm whose name it learnt at run time.
///
/// The algorithms are different types; a visitor is the generic function that is called with the right one.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Called with the algorithm.
    fn visit<R: Registered>(self) -> Self::Output;
}

/// Lists the algorithms of a family: `all`, and `visit` for whoever needs them as algorithms of that family.
macro_rules! family {
    ($(#[$doc:meta])* $interface:ident { $($algorithm:ident),+ $(,)? }) => {
        $(#[$doc])*
        pub trait Visitor {
            /// What comes of it.
            type Output;

            /// Called with the algorithm.
            fn visit<A: $interface + crate::Algorithm>(self) -> Self::Output;
        }

        /// Every algorithm of the family.
        #[must_use]
        pub fn all() -> alloc::vec::Vec<&'static crate::About> {
            alloc::vec![$(const { &<$algorithm as crate::Algorithm>::ABOUT },)+]
        }

        /// Calls the visitor with the algorithm of this name, if the family has it.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$algorithm as crate::Algorithm>::ABOUT.name {
                return Some(visitor.visit::<$algorithm>());
            })+
            None
        }

        /// Calls a visitor that takes algorithms of any family.
        pub(crate) fn visit_any<V: crate::registry::Visitor>(name: &str, visitor: V) -> Result<V::Output, V> {
            $(if name == <$algorithm as crate::Algorithm>::ABOUT.name {
                return Ok(visitor.visit::<Of<$algorithm>>());
            })+
            Err(visitor)
        }
    };
}

pub(crate) use family;

macro_rules! registry {
    ($($family:ident),+ $(,)?) => {
        /// Every algorithm, family by family.
        #[must_use]
        pub fn all() -> Vec<&'static About> {
            let mut all = Vec::new();
            $(all.extend(crate::$family::all());)+
            all
        }

        /// Calls the visitor with the algorithm of this name, if there is one.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(let visitor = match crate::$family::visit_any(name, visitor) {
                Ok(output) => return Some(output),
                Err(visitor) => visitor,
            };)+
            drop(visitor);
            None
        }

        /// The families.
        #[must_use]
        pub fn families() -> Vec<crate::family::Kind> {
            alloc::vec![$(crate::$family::FAMILY),+]
        }
    };
}

registry!(mutex, election, workers, multicast, consensus, memory, clock, events);

/// The algorithm of this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static About> {
    all().into_iter().find(|about| about.name == name)
}
