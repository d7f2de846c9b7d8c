//! Programs that come from Debian packages: what is missing is installed where that is allowed.

use std::fs;
use std::process::Command;

use crate::cmd;

/// Makes sure that all programs of `needed` are here, each with the package that brings it; without a package the machine itself must have
/// it. Installs what is missing when run by root. The error is the reason why not.
pub fn provide(needed: &[(&str, Option<&str>)]) -> Result<(), String> {
    let missing = || needed.iter().filter(|(program, _)| cmd::find_program(program).is_none());
    if let Some((program, _)) = missing().find(|(_, package)| package.is_none()) {
        return Err(format!("no {program}: this is no Debian machine"));
    }
    let packages: Vec<&str> = missing().filter_map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    if !is_root() {
        return Err(format!("not installed and not run by root: apt-get install {names}"));
    }
    install(&packages)?;
    match missing().next() {
        None => Ok(()),
        Some((program, _)) => Err(format!("{names} brought no {program}")),
    }
}

/// Installs packages. Only root may: see [`is_root`].
pub fn install(packages: &[&str]) -> Result<(), String> {
    println!("installing {}", packages.join(" "));
    let apt_get = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-y"]).args(args);
        cmd::output(&mut command).map(|_| ())
    };
    let mut line = vec!["install", "--no-install-recommends"];
    line.extend_from_slice(packages);
    // the lists may be stale or absent: only then is an update worth its time
    apt_get(&line).or_else(|_| apt_get(&["update"]).and_then(|()| apt_get(&line)))
}

/// Whether this process may do what root may.
pub fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|text| {
        text.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
    })
}
