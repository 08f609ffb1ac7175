//! What the types of a config cannot say.

use fidgp_zoo::baseline::spectral::SpectralBound;
use fidgp_zoo::methods::Extra;

use super::range::Finite;
use super::{
    DataConfig, GroupConfig, LEAST_STATISTICS_IMAGES, LikelihoodConfig, NamedNormalisation, NormaliseConfig, Precision,
    RunConfig, Select,
};
use crate::error::{LabError, Result};

impl RunConfig {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// Names the first key that does not fit, and what would.
    pub fn check(&self) -> Result<()> {
        self.check_range(Finite::Unseen)?;
        let train = &self.train;
        if self.name.is_empty() || self.name.contains(['/', '\\']) || self.name.starts_with('.') {
            return Err(LabError::config("name", format!("`{}` must be usable as a folder name", self.name)));
        }
        if train.epochs == 0 && self.start.is_none() {
            return Err(LabError::config("train.epochs", "0 is for networks with a [start]; without, at least 1"));
        }
        self.network.check()?;
        for (key, count, usual) in [
            ("train.batch_size", train.batch_size as u64, "100"),
            ("predict.batch_size", self.predict.batch_size as u64, "1000"),
            ("predict.draws", self.predict.draws, "8"),
            ("predict.validation_draws", self.predict.validation_draws, "1"),
        ] {
            if count == 0 {
                return Err(LabError::config(key, format!("must be at least 1; {usual} is usual")));
            }
        }
        if train.precision == Precision::Bf16 && !self.data.has_images() {
            return Err(LabError::config(
                "train.precision",
                "= \"bf16\" is for image networks; a regression needs f32",
            ));
        }
        train.optimiser.check()?;
        train.groups.iter().try_for_each(GroupConfig::check_numbers)?;
        let not_positive = |number: &f64| *number <= 0.0 || !number.is_finite();
        if let Some(limit) = train.clip_norm.filter(not_positive) {
            return Err(LabError::config(
                "train.clip_norm",
                format!("{limit} must be greater than 0; leave it out for no limit"),
            ));
        }
        if let Some(epoch) = train.freeze_norm_epoch.filter(|epoch| !(*epoch >= 0.0 && epoch.is_finite())) {
            let why = format!("{epoch} must be 0 or greater; leave it out to freeze nothing");
            return Err(LabError::config("train.freeze_norm_epoch", why));
        }
        self.check_pieces()?;
        // Without epochs nothing is too long, but a number must still be one.
        let epochs = if train.epochs > 0 { train.epochs as f64 } else { f64::INFINITY };
        train.schedule.check(epochs)?;
        train.kl.check(epochs)?;
        self.check_data()?;
        self.check_likelihood(None)?;
        self.check_method()?;
        self.check_baseline()?;
        self.check_posterior()?;
        self.check_selection()?;
        self.check_range(Finite::Checked)
    }

    /// Something to train on and to test on, a start where there is one, BatchNorm never alone with one example.
    fn check_data(&self) -> Result<()> {
        let mut smallest = self.train.batch_size;
        if let DataConfig::Synthetic1d { train, test, .. } = self.data {
            if train == 0 || test == 0 {
                return Err(LabError::config("data.train, data.test", "must be at least 1"));
            }
            smallest = smallest.min(train);
        }
        if let DataConfig::Images { name, .. } = &self.data {
            super::data::check_image_set(name)?;
        }
        if let DataConfig::Uci { name, .. } = &self.data {
            fidgp_data::uci::find(name).map_err(|error| LabError::config("data.name", format!("is wrong: {error}")))?;
        }
        if let DataConfig::Table(table) = &self.data {
            table.check(self.target_kind())?;
        }
        if let DataConfig::Arrays(arrays) = &self.data {
            arrays.check()?;
        }
        if let Some(limit @ (0 | 1)) = self.data.limit() {
            let why = format!("{limit} must be at least 2: BatchNorm has no statistics of a single example");
            return Err(LabError::config("data.limit", why));
        }
        if let DataConfig::Folder(folder) = &self.data {
            folder.check()?;
        }
        if let DataConfig::Segmentation(pairs) = &self.data {
            pairs.check()?;
        }
        let on_disk = matches!(self.data, DataConfig::Folder(_) | DataConfig::Segmentation(_));
        if on_disk && matches!(self.normalisation, Some(NormaliseConfig::Named(NamedNormalisation::Data))) {
            let why = "= \"data\" would decode the whole folder first; use \"imagenet\" or give mean and sd";
            return Err(LabError::config("normalisation", why));
        }
        let table = matches!(self.data, DataConfig::Table(_));
        for (section, given) in [("start", self.start.is_some()), ("normalisation", self.normalisation.is_some())] {
            if given && !self.data.has_images() && !table {
                return Err(LabError::config(section, "is for images and for tables of your own only"));
            }
        }
        match self.normalisation {
            Some(NormaliseConfig::Named(NamedNormalisation::None)) if !table => {
                let why = "= \"none\" is for tables; pictures are given to a network with { mean = [0, …], sd = [1, …] } as 0 to 1";
                return Err(LabError::config("normalisation", why));
            }
            Some(NormaliseConfig::Named(NamedNormalisation::Imagenet)) if table => {
                let why = "= \"imagenet\" is for pictures; a table takes \"data\", \"none\" or { mean = […], sd = […] } of its columns";
                return Err(LabError::config("normalisation", why));
            }
            _ => {}
        }
        self.check_pixels()?;
        self.check_statistics()?;
        if self.start.is_some() && self.method.about().trains_members_by.is_some() {
            let why = format!("does not fit method = \"{}\": its members must start apart", self.method.name());
            return Err(LabError::config("start", why));
        }
        self.normalisation.as_ref().map_or(Ok(()), NormaliseConfig::check)?;
        let normalised = self.network.has_batch_norm();
        if normalised && smallest < 2 {
            return Err(LabError::config(
                "train.batch_size",
                "must be at least 2: BatchNorm has no statistics of a single example",
            ));
        }
        Ok(())
    }

    /// BatchNorm statistics of each draw's own.
    fn check_statistics(&self) -> Result<()> {
        if self.predict.statistics_images > 0 && !self.data.has_classes() {
            let why = "is for image classification (data.set = \"images\", \"arrays\" or \"folder\")";
            return Err(LabError::config("predict.statistics_images", why));
        }
        if (1..LEAST_STATISTICS_IMAGES).contains(&self.predict.statistics_images) {
            let why = format!("must be 0 or at least {LEAST_STATISTICS_IMAGES}; one or two thousand are usual");
            return Err(LabError::config("predict.statistics_images", why));
        }
        if self.predict.statistics_images > 0 && self.train.freeze_norm_epoch.is_some() {
            let why = "does not go with train.freeze_norm_epoch, which trains for the running statistics: choose one";
            return Err(LabError::config("predict.statistics_images", why));
        }
        Ok(())
    }

    /// Segmentation networks for pictures with masks, and what only these have.
    fn check_pixels(&self) -> Result<()> {
        let DataConfig::Segmentation(pairs) = &self.data else {
            return match self.predict.window {
                Some(_) => Err(LabError::config("predict.window", "is for data.set = \"segmentation\"")),
                None => Ok(()),
            };
        };
        if !self.method.about().predicts_pixels {
            let why = format!("= \"{}\" has a head for whole pictures, not for pixels", self.method.name());
            return Err(LabError::config("method", why));
        }
        if self.predict.window.is_some_and(|window| window.iter().any(|side| *side < 1)) {
            return Err(LabError::config("predict.window", "must be at least [1, 1]"));
        }
        if self.start.as_ref().is_some_and(|start| start.backbone) && !self.network.has_backbone() {
            return Err(LabError::config(
                "start.backbone",
                "is for network.kind = \"fcn\", whose backbone is a ResNet",
            ));
        }
        self.check_likelihood(Some(pairs.class_count()))
    }

    fn check_likelihood(&self, classes: Option<usize>) -> Result<()> {
        self.likelihood.check(classes).map_err(|error| match error {
            fidgp::Error::Setting { setting, value, advice } => LabError::config(setting, format!("{value} {advice}")),
            other => other.into(),
        })
    }

    fn check_method(&self) -> Result<()> {
        let name = self.method.name();
        match (self.method.about().is_inducing, &self.inducing) {
            (false, Some(_)) => {
                Err(LabError::config("inducing", format!("is set, but method = \"{name}\" has no inducing weights")))
            }
            (true, None) => Err(LabError::config(
                "inducing",
                format!("is missing; method = \"{name}\" needs it, be it an empty [inducing] for the defaults"),
            )),
            (true, Some(plan)) => match self.method.objects_to(&plan.layer_plan()) {
                Some(why) => Err(LabError::config("inducing.posterior", why)),
                None => plan.check(),
            },
            (false, None) => Ok(()),
        }
    }

    /// The section of the method and no other, bounds and steps where they mean something.
    fn check_baseline(&self) -> Result<()> {
        let name = self.method.name();
        match (self.method.about().section.map(|section| section.kind), &self.baseline) {
            (wanted, Some(found)) if wanted != Some(found.kind()) => {
                let why = format!("= \"{}\" does not belong to method = \"{name}\"; leave it out", found.kind());
                return Err(LabError::config("baseline.kind", why));
            }
            (_, Some(section)) => section.check()?,
            (Some(kind), None) => {
                return Err(LabError::config(
                    "baseline",
                    format!("is missing; method = \"{name}\" needs kind = \"{kind}\""),
                ));
            }
            (None, None) => {}
        }
        if !self.method.about().predicts_numbers && !self.data.has_images() && !self.predicts_classes() {
            return Err(LabError::config("method", format!("= \"{name}\" is for classes, not for numbers")));
        }
        if let Some(bound) = self.network.spectral_norm() {
            let refused = |why: String| Err(LabError::config("network.spectral_norm", why));
            match self.method.about().spectral_norm {
                Extra::Renames(other) => return refused(renamed(name, other)),
                Extra::Refused => {
                    return refused(format!("bounds plain weights, which method = \"{name}\" does not have"));
                }
                Extra::Allowed | Extra::Own => {
                    SpectralBound(bound).check().or_else(|error| refused(error.to_string()))?;
                }
            }
        }
        self.check_alignment()?;
        let refused = |why: String| Err(LabError::config("train.sharpness", why));
        match (self.train.sharpness, self.method.about().sharpness) {
            (Some(rho), _) if !(rho > 0.0 && rho.is_finite()) => {
                refused(format!("{rho} must be greater than 0; leave it out for plain steps"))
            }
            (None, Extra::Own) => refused(format!("is missing; method = \"{name}\" needs it, 0.05 is usual")),
            (Some(_), Extra::Renames(other)) => refused(renamed(name, other)),
            (Some(_), Extra::Refused) => refused(format!("is not for method = \"{name}\"; leave it out")),
            _ => Ok(()),
        }
    }

    /// Pieces of a batch need examples, and nothing that is of the whole batch.
    fn check_pieces(&self) -> Result<()> {
        let train = &self.train;
        let no = |why: String| Err(LabError::config("train.accumulate", why));
        match train.accumulate {
            0 => no("must be at least 1, which is no accumulation".to_owned()),
            1 => Ok(()),
            pieces if 2 * pieces > train.batch_size => no(format!(
                "{pieces} must be at most half of train.batch_size = {}: a piece has two examples or more",
                train.batch_size
            )),
            _ if train.sharpness.is_some() => {
                no("does not go with train.sharpness, whose step is that of the whole batch".to_owned())
            }
            _ if matches!(&self.likelihood, LikelihoodConfig::Gaussian(own) if own.beta_nll > 0.0) => {
                no("does not go with likelihood.beta_nll, whose weights are those of the whole batch".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_alignment(&self) -> Result<()> {
        let weight = self.train.alignment;
        let why = match weight {
            weight if !(weight >= 0.0 && weight.is_finite()) => format!("{weight} must be 0 or greater"),
            weight if weight > 0.0 && !self.method.about().is_inducing => {
                format!(
                    "aligns inducing columns (fidgp, ffgu), which method = \"{}\" does not have",
                    self.method.name()
                )
            }
            _ => return Ok(()),
        };
        Err(LabError::config("train.alignment", why))
    }

    fn check_selection(&self) -> Result<()> {
        let fraction = self.data.validation_fraction();
        if let Some(fraction) = fraction.filter(|fraction| !(0.0..1.0).contains(fraction)) {
            return Err(LabError::config("data.validation_fraction", format!("{fraction} must lie in [0, 1)")));
        }
        let without_validation = match self.data {
            DataConfig::Synthetic1d { validation, .. } => validation == 0,
            DataConfig::Segmentation(ref pairs) => !pairs.has_validation(),
            _ => fraction == Some(0.0),
        };
        if self.train.select == Select::Best && self.data.has_splits() {
            let why = "= \"best\" is not for data.set = \"uci\", which keeps no weights of its splits; use \"last\"";
            return Err(LabError::config("train.select", why));
        }
        if self.train.select == Select::Best && (without_validation || self.train.validate_every == 0) {
            return Err(LabError::config(
                "train.select",
                "= \"best\" needs validation data and train.validate_every ≥ 1",
            ));
        }
        Ok(())
    }
}

/// A setting with which a method is another one.
fn renamed(name: &str, other: &str) -> String {
    format!("with method = \"{name}\" is method = \"{other}\"; call it so")
}
