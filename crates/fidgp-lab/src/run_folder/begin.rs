//! The folder of a run: made, or cleared of an earlier run, once the new one is known to be possible.

use std::path::Path;

use fidgp::objective::DatasetSize;
use fidgp_data::file_sha256;

use super::clear::clear;
use super::{Lock, RunContext};
use crate::config::{self, NetworkConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::files::{COMMAND_FILE, CONFIG_FILE, MODEL_CONFIG_FILE, NETWORK_FILE, WEIGHTS_FILE};
use crate::model::Model;
use crate::record::{RESULTS_FILE, write_atomically};
use crate::train::{Optimiser, checkpoint};

/// Whether a member of an ensemble, or a process with some of the splits, finds its run begun by another: it joins it, and no
/// run is mixed or forgotten.
fn joins(config: &RunConfig, context: &RunContext) -> Result<bool> {
    Ok((context.member.is_some() || context.shares) && is_begun(config, &context.run)?)
}

/// Whether a folder holds a run that this config began.
///
/// # Errors
/// When its config cannot be read.
pub fn is_begun(config: &RunConfig, run: &Path) -> Result<bool> {
    let begun = run.join(CONFIG_FILE);
    Ok(begun.exists() && config.has_begun(&config::read(&begun, &[])?))
}

/// Two runs do not share a folder, and results that came there in another way are not written over.
pub fn refuse_to_mix(config: &RunConfig, context: &RunContext) -> Result<()> {
    if context.resume || context.force || joins(config, context)? {
        return Ok(());
    }
    let refused = |why: String| Err(LabError::config(context.run.display().to_string(), why));
    if context.run.join(CONFIG_FILE).exists() {
        let why = "holds a run already; go on with --resume, choose another --out, or pass --force to start again";
        return refused(why.to_owned());
    }
    if [MODEL_CONFIG_FILE, WEIGHTS_FILE].iter().all(|file| context.run.join(file).exists()) {
        return refused("holds a model folder, whose files a run would mix with; choose another --out".to_owned());
    }
    if context.run.join(RESULTS_FILE).exists() {
        return refused(format!(
            "holds a {RESULTS_FILE}, which a run would write over; choose another --out, or pass --force to do so"
        ));
    }
    Ok(())
}

/// The context with which a run truly runs: one that is to be gone on with but stopped before its first checkpoint starts at
/// the beginning, and the command is the one that began it.
pub fn from_the_beginning<'a>(config: &RunConfig, context: &RunContext<'a>) -> Result<RunContext<'a>> {
    let begun = context.resume || joins(config, context)?;
    let resume = begun && !is_untouched(config, &context.run);
    if begun && !resume {
        tracing::warn!("{} has no checkpoint yet: it starts at the beginning", context.run.display());
    }
    Ok(RunContext {
        resume,
        force: context.force || (begun && !resume), // what it left is of no use
        command: if begun { Some(command_of(&context.run)) } else { context.command.clone() },
        data_root: context.data_root.clone(),
        run: context.run.clone(),
        splits: context.splits.clone(),
        resume_command: context.resume_command.clone(),
        ..*context
    })
}

/// Whether a run was begun but has neither a checkpoint nor results. Splits and members are gone on with one by one.
fn is_untouched(config: &RunConfig, run: &Path) -> bool {
    let by_parts = config.data.has_splits() || config.method.about().trains_members_by.is_some();
    !by_parts && !checkpoint::last(run).exists() && !run.join(RESULTS_FILE).exists()
}

/// The command that began the run of a folder; its config always does.
fn command_of(run: &Path) -> String {
    let kept = fidgp_files::text(&run.join(COMMAND_FILE)).ok().map(|text| text.trim().to_owned());
    kept.unwrap_or_else(|| format!("fidgp train {}", run.join(CONFIG_FILE).display()))
}

/// Writes down the command that began a run, for the record of one that is gone on with.
pub fn keep_command(run: &Path, command: &str) -> Result<()> {
    Ok(write_atomically(&run.join(COMMAND_FILE), format!("{command}\n").as_bytes())?)
}

/// Copies the graph of a network into its run, which so needs no other file; the config with its digest. A copy that is there
/// is of a member that began the run: it must be the same graph.
fn keep_graph(config: &RunConfig, run: &Path) -> Result<RunConfig> {
    let mut config = config.clone();
    if let NetworkConfig::Onnx(graph) = &mut config.network {
        let (content, digest) = graph.content()?;
        let copy = run.join(NETWORK_FILE);
        if copy.exists() && file_sha256(&copy)? != digest {
            let why = format!(
                "= {} is not the graph that this run began with ({NETWORK_FILE} there has another SHA-256); give that file, or \
                 start again with --force",
                graph.file().display()
            );
            return Err(LabError::config("network.path", why));
        }
        if !copy.exists() {
            write_atomically(&copy, &content)?;
        }
        graph.sha256 = Some(digest);
    }
    Ok(config)
}

/// Makes the run folder and writes the resolved config. Called when the data are read and the network is built, so that
/// a run that cannot begin changes nothing on disk; what a training asks of its so many observations is asked here.
pub fn open_folder(config: &RunConfig, context: &RunContext, model: &Model, observations: usize) -> Result<Lock> {
    DatasetSize::new(observations)?;
    Optimiser::check(&model.store, &config.training().groups)?;
    let lock = Lock::take(context)?;
    refuse_to_mix(config, context)?; // another process may have begun, or finished, since this was asked first
    if context.force && !context.resume {
        clear(&context.run)?;
    }
    context.command.as_ref().map_or(Ok(()), |command| keep_command(&context.run, command))?;
    let config = &keep_graph(config, &context.run)?;
    write_atomically(&context.run.join(CONFIG_FILE), config.to_toml()?.as_bytes())?; // last: with it the run has begun
    Ok(lock)
}
