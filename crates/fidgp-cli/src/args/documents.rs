//! What can be typed after `fidgp completions` and `fidgp man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  fidgp completions bash > ~/.local/share/bash-completion/completions/fidgp\n  \
    fidgp completions zsh > ~/.zfunc/_fidgp\n  fidgp completions fish > ~/.config/fish/completions/fidgp.fish")]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Write man pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fidgp man --out ~/.local/share/man/man1")]
pub struct Man {
    /// Folder for the pages; it is made if it is not there
    #[arg(long)]
    pub out: PathBuf,
}
