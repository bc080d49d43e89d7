//! Every algorithm of the registry without its types.
//!
//! [`Erased`](conclave_algorithms::erased::Erased) says what that means. All that erases the types is compiled here, once for all
//! drivers that need not be fast. It is a crate of its own so that it can be built beside the drivers that keep the types,
//! and optimised less than they are: see the profiles in the manifest of the workspace.

#![no_std]

use conclave_algorithms::SettingError;
use conclave_algorithms::erased::{Erase, Prepared};
use conclave_algorithms::family::{Registered, Wanted};
use conclave_algorithms::registry::{self, Visitor};

/// The algorithm of this name, prepared; nothing if there is no such algorithm.
pub fn prepare(name: &str, wanted: &mut Wanted<'_>) -> Option<Result<Prepared, SettingError>> {
    struct Erasing<'a, 'b>(&'a mut Wanted<'b>);
    impl Visitor for Erasing<'_, '_> {
        type Output = Result<Prepared, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            R::prepare(self.0, Erase)
        }
    }
    registry::visit(name, Erasing(wanted))
}
