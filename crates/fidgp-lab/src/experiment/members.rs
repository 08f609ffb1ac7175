//! Training of one model, or of a deep ensemble's members one after another.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fidgp::Key;
use fidgp_torch::Group;
use tch::Tensor;

use super::logged::Logged;
use crate::config::{RunConfig, TrainConfig};
use crate::error::{LabError, Result};
use crate::model::{MEMBERS, Model, Signature};
use crate::run_folder::{RunContext, member_folder};
use crate::source::Source;
use crate::train::checkpoint::Progress;
use crate::train::group::Share;
use crate::train::{Fit, Outcome, Validate, Watch, checkpoint};

/// Where one network is trained: nowhere, or in a folder, from its last checkpoint.
#[derive(Debug, Default)]
pub struct Place {
    /// The folder; nothing is saved without one.
    pub folder: Option<PathBuf>,
    /// Go on from its last checkpoint.
    pub resume: bool,
    /// Of a deep ensemble only this member.
    pub member: Option<i64>,
    /// The processes that train it together.
    pub group: Option<Arc<Group>>,
}

impl Place {
    /// Where the network of a run is trained.
    pub fn of(context: &RunContext, group: Option<&Arc<Group>>) -> Self {
        let writes = group.is_none_or(|group| group.rank() == 0);
        Self {
            folder: writes.then(|| context.run.clone()),
            resume: context.resume,
            member: context.member,
            group: group.cloned(),
        }
    }
}

/// Refuses a member that a config does not have.
pub fn check(config: &RunConfig, member: i64) -> Result<()> {
    let no = |why: String| Err(LabError::config("--member", why));
    if config.method.about().trains_members_by.is_none() {
        return no(format!("is for method = \"ensemble\", not for \"{}\"", config.method.name()));
    }
    if config.data.has_splits() {
        return no("is not for UCI, whose splits are trained side by side already (--parallel)".to_owned());
    }
    if config.train.checkpoint_every == 0 {
        return no("keeps nothing with train.checkpoint_every = 0: the member would be trained in vain".to_owned());
    }
    if (0..config.members()).contains(&member) {
        return Ok(());
    }
    no(format!("{member} is not among the {} members, which count from 0", config.members()))
}

/// A network and what it is trained on.
pub struct Training<'a> {
    /// How.
    pub config: &'a RunConfig,
    /// What.
    pub model: &'a Model,
    /// Its inputs and outputs.
    pub signature: &'a Signature,
    /// On what.
    pub source: &'a dyn Source,
    /// Validation NLL, if there is validation data.
    pub validate: Option<&'a Validate<'a>>,
    /// Raised to stop after the current step.
    pub stop: &'a AtomicBool,
    /// The command that goes on with it when it was stopped.
    pub resume_command: &'a str,
}

impl Training<'_> {
    /// Trains the model. The members of a deep ensemble are plain networks with seeds of their own, each trained under
    /// `members/K` and then taken into the model; members that are done are not trained again. `None` when the place asked
    /// for one member only: the model is not whole then.
    ///
    /// # Errors
    /// When training or disk fail, or the user stops it.
    pub fn run(&self, place: &Place, watch: &mut dyn Watch) -> Result<Option<Outcome>> {
        let config = self.config;
        let Some(method) = config.method.about().trains_members_by else {
            let outcome =
                self.one(config, self.model, (place.folder.as_deref(), place.resume), place.group.as_ref(), watch)?;
            return self.unless_stopped(place, outcome).map(Some);
        };
        let mut seconds = 0.0;
        let mut members = Vec::new();
        let mut last = None;
        let wanted = place.member.map_or(0..config.members(), |k| k..k + 1);
        for k in wanted {
            let seed = Key::new(config.seed).fold("member").at(k as u64).seed();
            let member = RunConfig { method, baseline: None, seed, ..config.clone() };
            let network = Model::init(&member, self.signature, self.model.store.device())?;
            let folder = place.folder.as_ref().map(|run| member_folder(run, k)).transpose()?;
            let resume = place.resume && folder.as_ref().is_some_and(|folder| checkpoint::last(folder).exists());
            let outcome = self.one(&member, &network, (folder.as_deref(), resume), None, watch)?;
            seconds += outcome.seconds;
            last = Some(outcome.progress);
            members.push(network);
        }
        if place.member.is_some() {
            return Ok(None);
        }
        take(self.model, &members);
        let progress = last.unwrap_or_default();
        if let Some(run) = &place.folder {
            checkpoint::save(&checkpoint::last(run), &checkpoint::variables(&self.model.store), &progress)?;
        }
        self.unless_stopped(place, Outcome { progress, seconds }).map(Some)
    }

    /// Seconds of a step, by making some, and how many networks are trained one after another. The model is another one then.
    ///
    /// # Errors
    /// When a step fails.
    pub fn seconds_per_step(&self) -> Result<(f64, i64)> {
        let Some(method) = self.config.method.about().trains_members_by else {
            let training = self.config.training();
            return Ok((self.fit(&training, self.config, self.model).seconds_per_step()?, 1));
        };
        let member = RunConfig { method, baseline: None, ..self.config.clone() };
        let network = Model::init(&member, self.signature, self.model.store.device())?;
        Ok((self.fit(&member.training(), &member, &network).seconds_per_step()?, self.config.members()))
    }

    /// The training of one network that is not saved.
    fn fit<'a>(&'a self, training: &'a TrainConfig, config: &RunConfig, model: &'a Model) -> Fit<'a> {
        Fit {
            model,
            config: training,
            seed: config.seed,
            source: self.source,
            validate: self.validate,
            run: None,
            stop: self.stop,
            resume_command: self.resume_command,
            share: None,
        }
    }

    /// Leaves the evaluation to a later command where the user asked to stop and the weights are kept.
    fn unless_stopped(&self, place: &Place, outcome: Outcome) -> Result<Outcome> {
        let kept = place.folder.is_some() && self.config.train.checkpoint_every > 0;
        let stops = kept && self.stop.load(Ordering::Relaxed);
        let stops = match &place.group {
            Some(group) => group.text_of_first("whether to measure", if stops { "no" } else { "yes" })? == "no",
            None => stops,
        };
        if !stops {
            return Ok(outcome);
        }
        let Progress { epoch, step, .. } = outcome.progress;
        let kept = "the training is done and saved, its evaluation is left";
        Err(LabError::Interrupted { epoch, step, kept, command: self.resume_command.to_owned() })
    }

    /// Trains one network; its epochs are logged where it has a folder.
    fn one(
        &self,
        config: &RunConfig,
        model: &Model,
        (folder, resume): (Option<&Path>, bool),
        group: Option<&Arc<Group>>,
        watch: &mut dyn Watch,
    ) -> Result<Outcome> {
        let training = config.training();
        let fit = Fit {
            run: folder.map(Path::to_owned),
            share: group.map(|group| Share::new(Arc::clone(group), config.train.sync_norm)),
            ..self.fit(&training, config, model)
        };
        match folder {
            Some(folder) => fit.run(resume, &mut Logged::new(folder, resume, watch)?),
            None => fit.run(resume, watch),
        }
    }
}

/// Copies the members' variables. Of what they have beside their networks the ensemble keeps each one's own (the likelihood's
/// noise) or, where it has it once (the normalisation), the mean.
fn take(model: &Model, members: &[Model]) {
    let stores: Vec<_> = members.iter().map(|member| member.store.variables()).collect();
    tch::no_grad(|| {
        for (name, mut variable) in model.store.variables() {
            let own = name.strip_prefix(MEMBERS).and_then(|rest| rest.strip_prefix('.')?.split_once('.'));
            let member = own.and_then(|(k, rest)| Some((k.parse::<usize>().ok()?, rest)));
            let value = if let Some((k, rest)) = member {
                stores[k][rest].shallow_clone()
            } else {
                let all: Vec<_> = stores.iter().map(|store| store[&name].shallow_clone()).collect();
                let all = Tensor::stack(&all, 0);
                if all.size() == variable.size() { all } else { all.mean_dim(0, false, variable.kind()) }
            };
            variable.copy_(&value);
        }
    });
}
