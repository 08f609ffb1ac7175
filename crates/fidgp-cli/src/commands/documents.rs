//! `fidgp completions` and `fidgp man`

use std::process::ExitCode;

use fidgp_lab::LabError;

use super::Outcome;
use crate::args::{Completions, Man};

pub fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::help::command(), "fidgp", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub fn man(arguments: &Man) -> Outcome {
    let out = &arguments.out;
    let failed = |source: std::io::Error| LabError::file(out, &source);
    std::fs::create_dir_all(out).map_err(failed)?;
    clap_mangen::generate_to(crate::help::command(), out).map_err(failed)?;
    super::print(&format!("wrote the man pages to {}\n", out.display()))?;
    Ok(ExitCode::SUCCESS)
}
