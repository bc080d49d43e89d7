//! Visits an algorithm of either of the two families with which these tests deal.

use conclave_algorithms::{About, election, mutex};

/// The algorithms of both.
#[allow(dead_code, reason = "not every test walks over all")]
pub fn all() -> Vec<&'static About> {
    mutex::all().into_iter().chain(election::all()).collect()
}

pub fn visit<O, V>(name: &str, visitor: V) -> Option<O>
where
    V: mutex::Visitor<Output = O> + election::Visitor<Output = O>,
{
    if mutex::all().iter().any(|about| about.name == name) {
        return mutex::visit(name, visitor);
    }
    election::visit(name, visitor)
}
