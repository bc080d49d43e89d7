//! Every algorithm of the registry without its types.
//!
//! [`Erased`](conclave_algorithms::erased::Erased) says what that means. All that erases the types is compiled here, once for all
//! drivers that need not be fast. It is a crate of its own so that it can be built beside the drivers that keep the types,
//! and optimised less than they are: see the profiles in the manifest of the workspace.

#![no_std]

use conclave_algorithms::SettingError;
use conclave_algorithms::erased::{Erase, Prepared};
use conclave_algorithms::family::{self, Registered, Wanted};
use conclave_algorithms::recorded::{Layer, Recording};
use conclave_algorithms::registry::{self, Visitor};

/// The algorithm of this name, prepared; nothing if there is no such algorithm.
pub fn prepare(name: &str, wanted: &mut Wanted<'_>) -> Option<Result<Prepared, SettingError>> {
    Some(match prepare_recorded(name, wanted) {
        None => bare(name, wanted)?,
        Some(recorded) => recorded.map(Prepared::from),
    })
}

/// The algorithm of this name with the layer around it that takes snapshots, for a driver that knows this layer's types;
/// nothing if there is no such algorithm, or its settings ask for no such layer.
pub fn prepare_recorded(
    name: &str,
    wanted: &mut Wanted<'_>,
) -> Option<Result<family::Prepared<Recording>, SettingError>> {
    registry::find(name)?;
    let layer = Layer::of(wanted).transpose()?;
    Some(layer.and_then(|layer| {
        layer.around(wanted, |wanted| bare(name, wanted).expect("an algorithm stays in the registry"))
    }))
}

/// The algorithm with nothing around it.
fn bare(name: &str, wanted: &mut Wanted<'_>) -> Option<Result<Prepared, SettingError>> {
    struct Erasing<'a, 'b>(&'a mut Wanted<'b>);
    impl Visitor for Erasing<'_, '_> {
        type Output = Result<Prepared, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            R::prepare(self.0, Erase)
        }
    }
    registry::visit(name, Erasing(wanted))
}
