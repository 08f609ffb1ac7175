//! `fidgp init`

use std::process::ExitCode;

use fidgp_lab::{LabError, starter};
use fidgp_report::record::write_atomically;

use super::{Outcome, quoted};
use crate::args::Init;

pub fn run(arguments: &Init) -> Outcome {
    let out = &arguments.out;
    if out.exists() {
        return Err(LabError::config(
            "--out",
            format!("`{}` exists already; name another file with --out", out.display()),
        ));
    }
    let found = starter::starter(&arguments.path, arguments.target.as_deref(), arguments.network.as_deref())?;
    write_atomically(out, found.text.as_bytes())?;
    let config = quoted(&out.display().to_string());
    super::print(&format!("{}\nwrote {}\n", found.said, out.display()))?;
    tell!("train it with: fidgp train {config}");
    Ok(ExitCode::SUCCESS)
}
