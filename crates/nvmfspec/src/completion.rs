//! `nvmfspec completion`: the script by which a shell completes the words of a command line.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Shell, generate};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  nvmfspec completion bash > ~/.local/share/bash-completion/completions/nvmfspec
  nvmfspec completion zsh  > ~/.zfunc/_nvmfspec          with ~/.zfunc in fpath
  nvmfspec completion fish > ~/.config/fish/completions/nvmfspec.fish
  source <(nvmfspec completion bash)                     for this shell alone";

/// For which shell.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell that is to read it
    #[arg(value_enum)]
    shell: Which,
}

/// The shells that the tests of this program know.
#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script for a command line.
pub fn run(args: &Args, command: &mut clap::Command) -> ExitCode {
    let shell = match args.shell {
        Which::Bash => Shell::Bash,
        Which::Zsh => Shell::Zsh,
        Which::Fish => Shell::Fish,
    };
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(shell, command, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
