//! Rules on the crates' manifests: shared lints, and the dependency arrows of docs/architecture.md.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Source};

/// Which of our crates each crate may depend on. Nothing points back. Tests and benches may use all.
const ARROWS: &[(&str, &[&str])] = &[
    ("spec", &[]),
    ("wire", &["spec"]),
    ("seam", &["wire"]),
    ("engine", &["seam", "wire", "spec"]),
    ("roce", &["seam", "wire"]),
    ("verbs", &["seam"]),
    ("capture", &["wire", "spec"]),
    ("fabric", &["engine", "roce", "capture", "seam", "wire", "spec"]),
    ("net", &["engine", "roce", "seam", "wire", "spec"]),
    ("scenario", &["capture", "seam", "wire", "spec"]),
    ("conformance", &["scenario", "capture", "seam", "wire", "spec"]),
    ("nvmfspec", &["conformance", "scenario", "fabric", "net", "verbs", "engine", "roce", "capture", "seam", "wire", "spec"]),
];

/// The one crate that calls C, and so has lints of its own.
const FFI: &str = "verbs";

/// The crates that may use tokio: the real world and what starts it.
const MAY_USE_TOKIO: &[&str] = &["net", "nvmfspec", "tests", "benches", "xtask"];

/// The findings in all manifests.
pub fn check(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let Some(dir) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let text = file.text.as_deref().unwrap_or_default();
        match text.parse::<toml::Table>() {
            Ok(table) => {
                let name = dir.strip_prefix("crates/").unwrap_or(dir);
                let faults = faults(name, dir.starts_with("crates/"), &table);
                findings.extend(faults.into_iter().map(|m| file.finding(0, true, m)));
            }
            Err(e) => findings.push(file.finding(0, true, format!("cannot be read: {e}"))),
        }
    }
    findings
}

fn faults(name: &str, is_crate: bool, manifest: &toml::Table) -> Vec<String> {
    let mut faults = Vec::new();
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if lints.and_then(toml::Value::as_bool) != Some(true) && name != FFI {
        faults.push("lacks `[lints] workspace = true`".to_owned());
    }
    let uses = dependencies(manifest);
    if uses.contains("tokio") && !MAY_USE_TOKIO.contains(&name) {
        faults.push(format!("{name} uses tokio: only {} may", MAY_USE_TOKIO.join(", ")));
    }
    if !is_crate {
        return faults;
    }
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let Some(allowed) = arrows.get(name) else {
        faults.push("a crate that the map does not know: give it its arrows".to_owned());
        return faults;
    };
    for other in uses.iter().filter_map(|package| ours(package)) {
        if !allowed.contains(&other) {
            faults.push(format!("{name} may not depend on {other}"));
        }
    }
    faults
}

/// Normal and build dependencies, those of particular targets included. Tests inside a crate may look further.
fn dependencies(manifest: &toml::Table) -> BTreeSet<&str> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    tables
        .iter()
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.keys().map(String::as_str))
        .collect()
}

/// The crate's folder, for a package of ours.
fn ours(package: &str) -> Option<&str> {
    match package {
        "nvmfspec" => Some(package),
        _ => package.strip_prefix("nvmf-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_lints_and_tokio_are_judged() {
        let count = |name: &str, text: &str| faults(name, true, &text.parse().expect("a manifest")).len();
        let lints = "[lints]\nworkspace = true\n";
        assert_eq!(count("wire", &format!("{lints}[dependencies]\nnvmf-spec = {{}}\n")), 0);
        assert_eq!(count("wire", "[dependencies]\nnvmf-spec = {}\n"), 1);
        assert_eq!(count("wire", &format!("{lints}[dependencies]\nnvmf-engine = {{}}\n")), 1);
        assert_eq!(count("capture", &format!("{lints}[target.'cfg(unix)'.dependencies]\nnvmf-engine = {{}}\n")), 1);
        assert_eq!(count("engine", &format!("{lints}[dependencies]\ntokio = {{}}\n")), 1);
        assert_eq!(count("engine", &format!("{lints}[dev-dependencies]\nnvmf-capture = {{}}\n")), 0);
        assert_eq!(count("unheard-of", lints), 1);
    }

    #[test]
    fn no_arrow_points_back() {
        for (at, (name, allowed)) in ARROWS.iter().enumerate() {
            for other in *allowed {
                let place = ARROWS.iter().position(|(crate_, _)| crate_ == other);
                assert!(place.is_some_and(|place| place < at), "{name} -> {other}");
            }
        }
    }
}
