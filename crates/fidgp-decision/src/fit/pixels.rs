//! Rules for the classes of pixels: an example is a picture.

use fidgp_metrics::Interval;

use super::{Asked, Named, Origin, calibration, divide};
use crate::calibration::{Calibration, Rules};
use crate::decide::percent;
use crate::error::Result;
use crate::kept::Kept;
use crate::pixels::{PixelEvidence, PixelSets, reaches};

/// Rules for the pixels of pictures: sets of classes, that miss no more pixels than a level allows.
///
/// # Errors
/// When there are too few pictures, or what is asked for makes no sense.
pub fn pixels(pictures: &[PixelEvidence], named: &Named, asked: &Asked, origin: Origin) -> Result<Calibration> {
    asked.check()?;
    let (fitted, held) = divide(pictures.len(), asked)?;
    let of = |rows: &[usize]| rows.iter().map(|&row| &pictures[row]).collect::<Vec<_>>();
    let (own, others) = (of(&fitted), of(&held));
    let (mut rules, mut notes, mut check) = (Rules::default(), Vec::new(), Vec::new());
    for &level in &asked.levels {
        let sets = PixelSets::calibrate(&own, None, level)?;
        let name = format!("pixels whose set holds their class at level {}", percent(level));
        check.extend(seen(&sets, &others, name, 1)?.map(|(kept, _)| kept));
        rules.pixels.push(sets);
        if asked.by_class {
            let all = of_classes(&own, &named.classes, level)?;
            check.extend(worst(&all, &others, &named.classes)?);
            rules.pixels.extend(all);
        }
    }
    for sets in rules.pixels.iter().filter(|sets| sets.threshold.is_none()) {
        let class =
            sets.class.map_or(String::new(), |class| format!(" for pixels of `{}`", name_of(&named.classes, class)));
        let need = (1.0 / (1.0 - sets.level) - 1.0 - 1e-9).ceil();
        notes.push(format!(
            "level {} needs {need} pictures{class}, there are {}: nothing is ruled out at it",
            sets.level, sets.pictures
        ));
    }
    let unseen: Vec<_> = (0..named.classes.len()).filter(|&class| own.iter().all(|one| one.lacks(class))).collect();
    if asked.by_class && !unseen.is_empty() {
        let names: Vec<_> = unseen.iter().map(|&class| name_of(&named.classes, class)).collect();
        notes.push(format!("no picture has a pixel of {}: there is no guarantee for it", names.join(", ")));
    }
    notes.push(
        "sets of pixels are all that is fitted: no picture is abstained from or called out of distribution".to_owned(),
    );
    let found = calibration(rules, std::collections::BTreeMap::new(), notes, asked, origin, [fitted.len(), held.len()]);
    Ok(Calibration { check, classes: named.classes.clone(), ..found })
}

fn name_of(classes: &[String], class: usize) -> String {
    classes.get(class).map_or_else(|| class.to_string(), fidgp_files::shown)
}

fn of_classes(pictures: &[&PixelEvidence], classes: &[String], level: f64) -> Result<Vec<PixelSets>> {
    let known = (0..classes.len()).filter(|&class| pictures.iter().any(|one| !one.lacks(class)));
    known.map(|class| PixelSets::calibrate(pictures, Some(class), level)).collect()
}

/// What the pictures that were held back say of sets, and how far above their bound it is.
fn seen(sets: &PixelSets, held: &[&PixelEvidence], promise: String, of: usize) -> Result<Option<(Kept, f64)>> {
    let missed = sets.missed_in(held);
    if missed.is_empty() {
        return Ok(None);
    }
    let ([lo, hi], kept) = reaches(&missed, sets.pictures, 1.0 - sets.level, of)?;
    let seen = 1.0 - missed.iter().sum::<f64>() / missed.len() as f64;
    let interval = Interval { lo: 1.0 - hi, hi: 1.0 - lo, level: 0.95 };
    let kept = Kept { promise, promised: sets.level, seen, interval, examples: missed.len(), kept, mean_size: None };
    Ok(Some((kept, sets.level - seen)))
}

/// The class that falls shortest of its promise.
fn worst(all: &[PixelSets], held: &[&PixelEvidence], classes: &[String]) -> Result<Option<Kept>> {
    let mut worst: Option<(Kept, f64)> = None;
    for sets in all {
        let name = name_of(classes, sets.class.unwrap_or_default());
        let promise = format!("pixels of the lowest class that are found at level {}, `{name}`", percent(sets.level));
        if let Some(one) = seen(sets, held, promise, all.len())?
            && worst.as_ref().is_none_or(|worst| worst.1 < one.1)
        {
            worst = Some(one);
        }
    }
    Ok(worst.map(|(kept, _)| kept))
}
