//! A class for every pixel of a picture.

use std::path::Path;
use std::time::Instant;

use fidgp::Key;
use fidgp::predict::{Segmented, segment};
use fidgp_data::PairSet;
use fidgp_metrics::names;
use tch::{Kind, Tensor};

use super::Spreads;
use super::{HeldOut, Measure, Measured, SplitRole, Task, Want, paper};
use crate::config::{PairSets, RunConfig, SegmentationConfig, Select};
use crate::error::{LabError, Result};
use crate::evaluate::{Spread, permuted_pixels, pixel_classes, segment_set};
use crate::maps::panels;
use crate::model::{Model, Signature};
use crate::record::{Figure, MAPS_FOLDER, Published, write_atomically};
use crate::run_folder::{TrainedOn, write_classes};
use crate::source::{Joint, PairSource, Source};

/// Pictures at most that are also looked at with their pixels permuted.
const PICTURES_SCRAMBLED: usize = 4;
/// Test pictures that are drawn as maps.
const MAPS: usize = 6;

/// Pictures with masks.
pub struct Segmentation {
    config: RunConfig,
    pairs: SegmentationConfig,
    sets: PairSets,
}

impl Segmentation {
    /// Lists the pairs of a config.
    ///
    /// # Errors
    /// When one of a pair is missing, or nothing is left to choose on.
    pub fn read(config: &RunConfig, pairs: &SegmentationConfig, root: &Path) -> Result<Self> {
        let sets = pairs.open(root)?;
        if sets.validation.is_none() && config.train.select == Select::Best {
            let why = format!(
                "= {} leaves no validation picture; train.select = \"best\" needs some",
                pairs.validation_fraction
            );
            return Err(LabError::config("data.validation_fraction", why));
        }
        Ok(Self { config: config.clone(), pairs: pairs.clone(), sets })
    }

    /// The test pictures, or those of validation, as a model sees them.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn pictures(&self, test: bool, model: &Model) -> Result<Option<PairSource>> {
        let set = if test { Some(&self.sets.test) } else { self.sets.validation.as_ref() };
        set.map(|set| self.source(set, model)).transpose()
    }

    fn source(&self, set: &PairSet, model: &Model) -> Result<PairSource> {
        let normalisation = model.normalisation.as_ref();
        let normalisation = normalisation.ok_or_else(|| LabError::config("network", "has no normalisation"))?;
        PairSource::new(set.clone(), Joint::of(&self.pairs), normalisation, model.store.device())
    }

    /// Segments a set; some of its pictures are drawn into a run folder, where that is wanted.
    fn measured(&self, model: &Model, set: &PairSource, draws: u64, want: Want) -> Result<Measured> {
        let run = if let Want::Everything(run) = want { run } else { None };
        let (mut maps, mut aside) = (Maps::spread(set.names()), 0.0);
        let drawn = if run.is_some() { maps.rows.clone() } else { Vec::new() };
        let found = segment_set(
            model,
            (&self.config.predict, draws),
            Key::new(self.config.seed).fold("predict"),
            (set, &self.sets.train.class_names),
            (&|rows| drawn.iter().any(|row| rows.contains(row)), &mut |first, segmented, masks| {
                let (Some(run), began) = (run, Instant::now()) else { return Ok(()) };
                maps.draw(run, set, first, segmented, masks)?;
                aside += began.elapsed().as_secs_f64();
                Ok(())
            }),
        )?;
        let figure = crate::record::Segmentation { maps: maps.drawn, ..found.figure };
        Ok(Measured {
            metrics: found.metrics,
            notes: found.notes,
            examples: Some(found.examples),
            figure: Some(Figure::Segmentation(Box::new(figure))),
            aside,
        })
    }
}

/// Pictures that are drawn, evenly spread over a set.
struct Maps {
    names: Vec<String>,
    rows: Vec<usize>,
    drawn: Vec<String>,
}

impl Maps {
    fn spread(names: Vec<String>) -> Self {
        let count = MAPS.min(names.len());
        Self { rows: (0..count).map(|i| i * names.len() / count).collect(), names, drawn: Vec::new() }
    }

    /// Draws those of a batch, whose first picture has this number.
    fn draw(&mut self, run: &Path, set: &PairSource, first: usize, said: &Segmented, masks: &Tensor) -> Result<()> {
        let count = masks.size()[0] as usize;
        for &row in self.rows.iter().filter(|row| (first..first + count).contains(row)) {
            let (name, index) = (format!("{}.png", self.names[row]), (row - first) as i64);
            let map = panels(&set.picture(row)?, said, index, Some(&masks.get(index)))?;
            write_atomically(&run.join(MAPS_FOLDER).join(&name), &map.to_png()?)?;
            self.drawn.push(name);
        }
        Ok(())
    }
}

impl Task for Segmentation {
    fn config(&self) -> &RunConfig {
        &self.config
    }

    fn signature(&self) -> Result<Signature> {
        Ok(Signature::of_pairs(&self.config, &self.pairs))
    }

    fn classes(&self) -> &[String] {
        &self.sets.train.class_names
    }

    fn trained_on(&self) -> Option<TrainedOn> {
        Some(TrainedOn { examples: self.sets.train.rows(), sha256: self.sets.train.fingerprint() })
    }

    fn examples<'a>(&'a self, model: &Model, _: SplitRole) -> Result<Box<dyn Source + 'a>> {
        Ok(Box::new(self.source(&self.sets.train, model)?))
    }

    fn measure<'a>(&'a self, part: HeldOut, model: &Model) -> Result<Option<Measure<'a>>> {
        let set = match part {
            HeldOut::Validation => self.sets.validation.as_ref(),
            HeldOut::Test => Some(&self.sets.test),
        };
        let Some(set) = set else { return Ok(None) };
        let pictures = self.source(set, model)?;
        Ok(Some(Box::new(move |model, draws, want| self.measured(model, &pictures, draws, want))))
    }

    fn spreads(&self, model: &Model, draws: u64) -> Result<Option<Spreads>> {
        let (part, set) = match &self.sets.validation {
            Some(set) => (HeldOut::Validation, set),
            None => (HeldOut::Test, &self.sets.test),
        };
        let (key, source) = (Key::new(self.config.seed), self.source(set, model)?);
        let (mut own, mut scrambled) = (Spread::default(), Spread::default());
        for (number, batch) in source.whole(1).take(PICTURES_SCRAMBLED).enumerate() {
            let (pictures, _) = batch?;
            let permuted = permuted_pixels(&pictures, key.fold("scrambled").at(number as u64));
            for (spread, x) in [(&mut own, &pictures), (&mut scrambled, &permuted)] {
                let draws = model.draws(draws, key.fold("predict"))?;
                let found = segment(&draws, x, pixel_classes(model)?, self.config.predict.window)?;
                spread.epistemic.push(found.epistemic.mean(Kind::Double).double_value(&[]));
                spread.total.push(found.total.mean(Kind::Double).double_value(&[]));
            }
        }
        Ok((!own.total.is_empty()).then_some(Spreads { part, own, scrambled: Some(scrambled) }))
    }

    fn chosen_by(&self) -> &'static str {
        names::SEG_NLL
    }

    fn test_sha256(&self) -> Option<String> {
        Some(self.sets.test.fingerprint())
    }

    fn keep(&self, run: &Path) -> Result<()> {
        write_classes(run, self.classes())
    }

    fn announces(&self) -> Option<String> {
        Some(format!("{} test pictures", self.sets.test.rows()))
    }

    fn published(&self) -> Vec<Published> {
        paper::of(&self.config, &self.pairs)
    }
}
