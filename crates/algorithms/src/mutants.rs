//! Mutants: copies of an algorithm that are broken on purpose, to see whether a property notices.

/// Declares the mutants of an algorithm, each once.
///
/// ```text
/// mutants! {
///     enum Mutation {
///         NoTieBreak {
///             name: "no-tie-break", breaks: "ME1", nodes: 2, trigger: Schedule,
///             change: "requests with equal stamps are not ordered by id: both let each other in",
///         }
///         SingleProbe { same_as: recovery::Mutation::SingleProbe }
///     }
/// }
/// ```
///
/// An entry has a variant, and what [`Mutant`](crate::Mutant) asks for: the name on the command line, the property that
/// it breaks, a group size at which it is caught, what it takes to see it, and what was changed. A mutant that a
/// protocol around this one declares is listed by `same_as`: it belongs to this algorithm's table, but its change may
/// stand in the other protocol.
///
/// This yields the enum `Mutation`, for the configuration of the algorithm, and with it
/// - `ALL`, every variant in the order of declaration,
/// - `TABLE`, what [`About::mutants`](crate::About::mutants) lists, in the same order,
/// - `about`, the entry of a variant,
/// - `named`, the variant of a name, and `of`, the variant that settings ask for. Both are nothing for a name that is
///   not declared: there is no variant that stands in for the others.
macro_rules! mutants {
    (@about same_as: $mutation:expr $(,)?) => {
        $mutation.about()
    };
    (@about
        name: $name:literal, breaks: $breaks:literal, nodes: $nodes:literal, trigger: $trigger:ident,
        change: $change:literal $(,)?
    ) => {
        $crate::Mutant {
            name: $name,
            breaks: $breaks,
            nodes: $nodes,
            trigger: $crate::Trigger::$trigger,
            change: $change,
        }
    };
    ($(#[$attribute:meta])* $vis:vis enum Mutation {
        $($(#[$doc:meta])* $variant:ident { $($about:tt)+ })+
    }) => {
        /// The mutants: one rule each is missing or wrong. What is changed stands in [`TABLE`](Self::TABLE).
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum Mutation {
            $($(#[$doc])* $variant,)+
        }

        impl Mutation {
            /// All, in the order of declaration.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// What is said of each, in the same order.
            $vis const TABLE: &'static [$crate::Mutant] = &[$(mutants!(@about $($about)+)),+];

            /// What is said of this one.
            #[must_use]
            $vis const fn about(self) -> $crate::Mutant {
                Self::TABLE[self as usize]
            }

            /// The mutant of this name, if it is declared here.
            #[must_use]
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|mutation| mutation.about().name == name)
            }

            /// The mutant that the settings ask for, if any.
            #[must_use]
            $vis fn of(settings: &$crate::Settings) -> Option<Self> {
                settings.mutant().and_then(Self::named)
            }
        }
    };
}
