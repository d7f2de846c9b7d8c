//! Running other programs, and where the workspace and its build output lie.
//!
//! Not here: what the commands of `cargo xtask` do. Start with [`cargo`] and [`run`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace root: the folder above this crate, as cargo tells it, or the nearest one above the current folder.
pub fn root() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("CARGO_MANIFEST_DIR")
        && let Some(parent) = Path::new(&dir).parent()
    {
        return Ok(parent.to_owned());
    }
    let here = std::env::current_dir().map_err(|e| format!("the current folder: {e}"))?;
    here.ancestors()
        .find(|dir| std::fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]")))
        .map(Path::to_owned)
        .ok_or_else(|| format!("no workspace at or above {}", here.display()))
}

/// The target folder that this very program was built into, so that what it builds shares the work already done.
pub fn target_dir() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    exe.ancestors().nth(2).map(Path::to_owned).ok_or_else(|| format!("{} lies in no target folder", exe.display()))
}

/// A `cargo` command in the workspace root, building into [`target_dir`].
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Command, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root()?).env("CARGO_TARGET_DIR", target_dir()?);
    Ok(command)
}

/// Runs a command to its end; a status other than 0 is an error that names the command.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot start {}: {e}", shown(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{} ended with {status}", shown(command)))
}

/// Runs a command and returns what it printed; on failure the error carries the last lines of its error output.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot start {}: {e}", shown(command)))?;
    if out.status.success() {
        return Ok(out.stdout);
    }
    let text = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(3)..].join("; ");
    Err(format!("{} ended with {}: {tail}", shown(command), out.status))
}

/// The full path of a program, when one of that name lies in `PATH` or in one of the system's own folders.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The `nvmfspec` command line, built now if it is not up to date: as the tests build it, so that most of it is there.
pub fn nvmfspec() -> Result<PathBuf, String> {
    built("dev")
}

/// The same as users have it, to be measured.
pub fn nvmfspec_release() -> Result<PathBuf, String> {
    built("release")
}

fn built(profile: &str) -> Result<PathBuf, String> {
    run(&mut cargo(["build", "--quiet", "--profile", profile, "--bin", "nvmfspec"])?)?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let exe = target_dir()?.join(folder).join(format!("nvmfspec{}", std::env::consts::EXE_SUFFIX));
    if exe.is_file() {
        return Ok(exe);
    }
    Err(format!("cargo built no {}", exe.display()))
}

/// A command as one would type it: the program's name and its arguments.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut text = format!("`{}", name.to_string_lossy());
    for arg in command.get_args().take(6) {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    if command.get_args().len() > 6 {
        text.push_str(" …");
    }
    text + "`"
}
