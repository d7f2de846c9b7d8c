//! Rules on what is data: scripts lie in the folder of their kind, captures and vectors are in their manifest.

use super::{Finding, Source};

/// Folder and the word that every script in it begins with, behind the parts that its scripts share.
const SCRIPTS: &[(&str, &str)] = &[("tests/checks/", "check"), ("tests/faults/", "fault"), ("tests/scenarios/", "scenario")];

/// Folders whose files a manifest must name.
const LISTED: &[&str] = &["captures/", "vectors/"];
const MANIFEST: &str = "manifest.toml";

/// The findings in scripts and recorded data.
pub fn check(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (folder, kind) in SCRIPTS {
            if file.path.starts_with(folder) && !file.path.ends_with(".md") && !file.path.ends_with(".mask") {
                let text = file.text.as_deref().unwrap_or_default();
                let parts = first_word(text) == Some("part") && text.lines().any(|line| line.starts_with(kind));
                if first_word(text) != Some(kind) && !parts {
                    let message = format!("a script in {folder} begins with `{kind}`");
                    findings.push(file.finding(0, true, message));
                }
            }
        }
        if let Some(folder) = LISTED.iter().find(|folder| file.path.starts_with(**folder)) {
            findings.extend(unlisted(file, folder, files));
        }
    }
    findings
}

/// The first word of a script, comments and empty lines aside.
fn first_word(text: &str) -> Option<&str> {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .and_then(|line| line.split_whitespace().next())
}

/// A finding unless a manifest beside the file or in a folder above it, up to `top`, names the file.
fn unlisted(file: &Source, top: &str, files: &[Source]) -> Option<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name == MANIFEST || name.ends_with(".md") {
        return None;
    }
    let manifests = files.iter().filter(|other| {
        other.path.strip_suffix(MANIFEST).is_some_and(|folder| folder.starts_with(top) && file.path.starts_with(folder))
    });
    let is_named = manifests.filter_map(|manifest| {
        let folder = manifest.path.strip_suffix(MANIFEST)?;
        let inside = file.path.strip_prefix(folder)?;
        let quoted = format!("\"{inside}\"");
        Some(manifest.text.as_deref()?.contains(&quoted))
    });
    if is_named.into_iter().any(|named| named) {
        return None;
    }
    Some(file.finding(0, true, format!("no {MANIFEST} from {top} down to it names it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: Some(text.into()) }
    }

    #[test]
    fn scripts_begin_with_their_kind() {
        let good = file("tests/checks/a.check", "# why\n\ncheck a/b\n");
        let bad = file("tests/faults/a.fault", "check a/b\n");
        let found = check(&[good, bad]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "tests/faults/a.fault");
    }

    #[test]
    fn recorded_files_are_in_a_manifest() {
        let manifest = file("captures/linux/manifest.toml", "file = \"a.pcap\"\nx = \"sub/b.pcap\"\n");
        let listed = ["captures/linux/a.pcap", "captures/linux/sub/b.pcap"].map(|path| file(path, ""));
        let not = ["captures/linux/c.pcap", "captures/other/a.pcap"].map(|path| file(path, ""));
        let files: Vec<Source> = [manifest].into_iter().chain(listed).chain(not).collect();
        let found: Vec<String> = check(&files).into_iter().map(|finding| finding.file).collect();
        assert_eq!(found, ["captures/linux/c.pcap", "captures/other/a.pcap"]);
    }
}
