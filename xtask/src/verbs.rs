//! What `crates/verbs` needs of the machine: the libraries of RDMA, and clang, which reads their headers.

use std::path::Path;
use std::process::Command;

use crate::{cmd, packages};

/// rdma-sys reads the headers by a bindgen that later versions of clang break.
const CLANG: &str = "/usr/lib/llvm-14/lib";
const PACKAGES: &[&str] = &["librdmacm-dev", "libibverbs-dev", "libclang-14-dev", "pkg-config"];

/// Makes sure that the crate can be built; the error is the reason why not.
pub fn provide() -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    let names = PACKAGES.join(" ");
    if !packages::is_root() {
        return Err(format!("not installed and not run by root: apt-get install {names}"));
    }
    packages::install(PACKAGES).map_err(|e| format!("cannot install {names}: {e}"))?;
    if is_there() { Ok(()) } else { Err(format!("{names} brought no libraries that pkg-config knows")) }
}

/// cargo with the clang that rdma-sys can use.
pub fn cargo(args: &[&str]) -> Result<Command, String> {
    let mut command = cmd::cargo(args)?;
    command.env("LIBCLANG_PATH", CLANG);
    Ok(command)
}

fn is_there() -> bool {
    let known = Command::new("pkg-config").args(["--exists", "libibverbs", "librdmacm"]).status().is_ok_and(|s| s.success());
    known && Path::new(CLANG).is_dir()
}
