//! Whether we may use and pass on every dependency under the licences that we accept.

use serde::Deserialize;
use spdx::{Expression, LicenseReq, Licensee, ParseMode};

use crate::shell::cargo;

/// Licences that ask for no more than to be named. A dependency that needs another one is a decision: take it here,
/// with its reason, or do without the dependency.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The licence of every crate of this workspace.
const OURS: &str = "MIT OR Apache-2.0";

/// What `cargo metadata` says, as far as it matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

/// Judges every package in the lock file, for all platforms and for development too.
pub fn check_all() -> Result<(), String> {
    let json = cargo("metadata --format-version 1 --locked").output()?;
    let metadata: Metadata = serde_json::from_slice(&json)
        .map_err(|error| format!("`cargo metadata` is not as expected: {error}"))?;
    let objections = objections(&metadata);
    for objection in &objections {
        eprintln!("    {objection}");
    }
    let total = metadata.packages.len();
    if !objections.is_empty() {
        return Err(format!("{} of {total} packages have no licence that we accept", objections.len()));
    }
    println!("    {total} packages, all under licences that we accept");
    Ok(())
}

fn objections(metadata: &Metadata) -> Vec<String> {
    let objection = |package: &Package| {
        let is_ours = metadata.workspace_members.contains(&package.id);
        let why = if is_ours { ours(package) } else { acceptable(package) }.err()?;
        Some(format!("{} {}: {why}", package.name, package.version))
    };
    metadata.packages.iter().filter_map(objection).collect()
}

fn ours(package: &Package) -> Result<(), String> {
    match package.license.as_deref() {
        Some(OURS) => Ok(()),
        Some(other) => Err(format!("is ours, and says `{other}` instead of `{OURS}`")),
        None => Err(format!("is ours, and does not say `{OURS}`")),
    }
}

fn acceptable(package: &Package) -> Result<(), String> {
    // A file in place of an expression has to be read by a person.
    let licence = package.license.as_deref().ok_or("states no licence expression")?;
    // Old manifests write `MIT/Apache-2.0`.
    let expression = Expression::parse_mode(licence, ParseMode::LAX)
        .map_err(|error| format!("`{licence}` is no licence expression: {}", error.reason))?;
    if expression.evaluate(is_allowed) {
        Ok(())
    } else {
        Err(format!("`{licence}` cannot be met by what we accept"))
    }
}

fn is_allowed(requirement: &LicenseReq) -> bool {
    ALLOWED.iter().any(|allowed| {
        Licensee::parse(allowed)
            .expect("the allow list holds licences that SPDX knows")
            .satisfies(requirement)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>) -> Package {
        Package {
            id: "id".into(),
            name: "name".into(),
            version: "1.2.3".into(),
            license: license.map(String::from),
        }
    }

    #[test]
    fn every_allowed_licence_is_known_and_accepted() {
        for &licence in ALLOWED {
            assert_eq!(acceptable(&package(Some(licence))), Ok(()), "{licence}");
        }
    }

    #[test]
    fn an_expression_is_met_or_not() {
        for (licence, met) in [
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0+", true),
            ("GPL-3.0-only OR MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-3.0-only", false),
            ("MIT AND GPL-3.0-only", false),
            ("MIT AND (LGPL-2.1-or-later OR AGPL-3.0-only)", false),
            ("MPL-2.0", false),
            ("MIT WITH Classpath-exception-2.0", false),
            ("LicenseRef-house-rules", false),
        ] {
            assert_eq!(acceptable(&package(Some(licence))).is_ok(), met, "{licence}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        assert!(acceptable(&package(None)).is_err());
        assert!(acceptable(&package(Some(""))).is_err());
        assert!(acceptable(&package(Some("do what you like"))).is_err());
    }

    #[test]
    fn our_own_crates_carry_our_licence_and_no_other() {
        assert_eq!(ours(&package(Some("MIT OR Apache-2.0"))), Ok(()));
        assert!(ours(&package(Some("MIT"))).is_err());
        assert!(ours(&package(None)).is_err());
    }

    #[test]
    fn an_objection_names_the_package_and_its_licence() {
        let json = r#"{
            "packages": [
                { "id": "a", "name": "ours", "version": "0.1.0", "license": "MIT" },
                { "id": "b", "name": "fine", "version": "1.0.0", "license": "MIT" },
                { "id": "c", "name": "viral", "version": "2.0.0", "license": "AGPL-3.0-only" },
                { "id": "d", "name": "mute", "version": "3.0.0", "license": null }
            ],
            "workspace_members": ["a"]
        }"#;
        let metadata: Metadata = serde_json::from_str(json).unwrap();
        assert_eq!(
            objections(&metadata),
            [
                "ours 0.1.0: is ours, and says `MIT` instead of `MIT OR Apache-2.0`",
                "viral 2.0.0: `AGPL-3.0-only` cannot be met by what we accept",
                "mute 3.0.0: states no licence expression",
            ]
        );
    }
}
