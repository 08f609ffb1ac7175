//! `fidgp ood`

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use fidgp_files::write;
use fidgp_lab::LabError;
use fidgp_lab::files::OOD_FOLDER;
use fidgp_lab::ood::{self, More, STATISTICS_FILE, Settings, WeightChoice};
use fidgp_lab::predict::Trained;
use fidgp_report::pages;
use fidgp_report::record::{OodDocument, check_writable, write_atomically};
use fidgp_torch::Group;
use tch::Device;

use super::threads::set_for;
use super::train::{command_line, data_root};
use super::{Outcome, processes};
use crate::args::Ood;

/// ID training images to fit on, where nobody says.
const FIT: usize = 10_000;

pub fn run(arguments: &Ood) -> Outcome {
    let Some(model) = &arguments.model else {
        if processes::launched()?.is_some() {
            return Err(LabError::config("--logits", "is work for one process: start it once, without the launcher"));
        }
        return score(arguments, Device::Cpu, None);
    };
    set_for(model, arguments.place.threads)?;
    processes::shared(&arguments.place.device, |device, group| score(arguments, device, group))
}

fn score(arguments: &Ood, device: Device, group: Option<&Arc<Group>>) -> Outcome {
    let writes = processes::is_first(group);
    let mut say = |text: &str| {
        if writes {
            tell!("{text}");
        }
    };
    let beside = arguments.model.clone().unwrap_or_default();
    let out = arguments.out.clone().unwrap_or_else(|| beside.join(OOD_FOLDER));
    refuse_links(arguments, &beside, &out)?;
    check_writable(&out)?;
    let bench = match (&arguments.model, &arguments.logits) {
        (Some(model), _) => {
            let mut predictor = Trained::open(model, device)?;
            predictor.share(group)?;
            let draws = arguments.draws.unwrap_or(predictor.config.predict.draws);
            let root = data_root(arguments.place.data.as_deref(), &predictor.config)?;
            let mut settings = settings(arguments, model, draws, root);
            settings.more.statistics = (!arguments.fresh).then(|| model.join(STATISTICS_FILE));
            ood::run(&predictor, &settings, &mut say)?
        }
        (None, Some(logits)) => {
            let settings = settings(arguments, logits, 0, PathBuf::new());
            ood::run_arrays(logits, arguments.features.as_deref(), &settings, &mut say)?
        }
        (None, None) => return Err(LabError::config("MODEL", "is missing: name a run, a model folder, or --logits")),
    };
    if !writes {
        return Ok(ExitCode::SUCCESS);
    }
    bench.write_arrays(&out)?;
    bench.document.write(&out.join("ood.json"))?;
    write_atomically(&out.join("ood.csv"), bench.document.csv().as_bytes())?;
    let page = pages::ood::write(&bench.document, &bench.id, &bench.ood, &out)?;
    if arguments.json {
        super::print_json(&bench.document)?;
    } else {
        super::print(&table(&bench.document))?;
        super::print(&procedure_and_lemma(&bench.document, arguments.spectral))?;
    }
    tell!("wrote {}", page.display());
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write where links lead: the folder of a model may be a stranger's.
fn refuse_links(arguments: &Ood, beside: &Path, out: &Path) -> Result<(), LabError> {
    let beside = if arguments.out.is_none() { write::refuse_links(beside, &[OOD_FOLDER]) } else { Ok(()) };
    beside.and_then(|()| write::refuse_links(out, &["scores"])).map_err(|error| LabError::file(out, &error))
}

fn settings(arguments: &Ood, what: &Path, draws: u64, root: PathBuf) -> Settings {
    Settings {
        model: what.display().to_string(),
        id: arguments.id.clone(),
        ood: arguments.sets.clone(),
        near: arguments.near.clone(),
        choose_on: arguments.choose_on.clone(),
        root,
        u: arguments.draw.map_or(WeightChoice::Mean, WeightChoice::Draw),
        draws,
        gradients: !arguments.forward_only,
        limit: arguments.limit.map_or(usize::MAX, std::num::NonZero::get),
        fit: arguments
            .fit
            .or(arguments.limit)
            .map_or(FIT, |fit| if arguments.fit.is_some() { fit.get() } else { fit.get().min(FIT) }),
        batch: arguments.batch.get() as usize,
        seed: arguments.seed,
        skip_controls: arguments.unsafe_skip_controls,
        command: Some(command_line()),
        more: More { paper_protocol: arguments.paper_protocol, ..More::default() },
    }
}

/// AUROC of every score on every set, then the means of the groups.
fn table(document: &OodDocument) -> String {
    let mut text = String::new();
    if document.controls_skipped {
        text += "WARNING: run with --unsafe-skip-controls; see the controls before believing any number\n";
    }
    let names: Vec<&str> = document.sets.iter().map(|set| set.name.as_str()).collect();
    let heads: Vec<&str> = names.iter().copied().chain(["nearood", "farood"]).collect();
    let widths: Vec<usize> = heads.iter().map(|head| head.chars().count().max(7)).collect();
    let line = |name: &str, cells: Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{name:<21}{}\n", cells.collect::<String>())
    };
    text += &line("AUROC, %", heads.iter().map(ToString::to_string).collect());
    let percent = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{:.2}", 100.0 * value));
    for score in &document.scores {
        let own = names.iter().map(|name| percent(score.sets.get(*name).map(|metrics| metrics.AUROC)));
        text += &line(&score.name, own.chain([percent(score.nearood), percent(score.farood)]).collect());
    }
    for set in document.sets.iter().filter(|set| !set.trivial.is_empty()) {
        let _ = writeln!(text, "{} is trivially separable: {}", set.name, set.trivial.join("; "));
    }
    for set in document.sets.iter().filter(|set| set.duplicates > 0) {
        let _ =
            writeln!(text, "{}: {} of {} images are also in the ID training set", set.name, set.duplicates, set.images);
    }
    if let Some(chosen) = &document.chosen {
        let _ = writeln!(
            text,
            "chosen on {} among {} recipes, with {} ID images that are not in the table: {}",
            chosen.on.join(", "),
            chosen.candidates,
            chosen.id_images,
            chosen.says
        );
    }
    if let Some(cost) = document.cost {
        let residual = cost.residual.map_or(String::new(), |s| format!(", residual {:.2}", s / cost.forward));
        let _ = writeln!(text, "cost in forward passes: variance {:.2}{residual}", cost.variance / cost.forward);
    }
    if let Some(accuracy) = document.accuracy {
        let _ = writeln!(text, "accuracy on {} {} images: {:.2} %", document.id_images, document.id, 100.0 * accuracy);
    }
    text
}

/// The released script's procedure, and the lemma where it was asked for.
fn procedure_and_lemma(document: &OodDocument, spectral: bool) -> String {
    let mut text = String::new();
    if let Some(paper) = &document.paper_protocol {
        let row = |name: &str, values: &[f64]| {
            let cells: Vec<String> = values.iter().map(|value| format!("  {:>7.2}", 100.0 * value)).collect();
            format!("{name:<21}{}", cells.concat())
        };
        let verdict = if paper.passed { "held" } else { "FAILED: these numbers measure the draw, not the images" };
        let _ =
            writeln!(text, "\nthe released script's procedure, AUROC in % of repeats; {} images a set", paper.images);
        let _ = writeln!(text, "{}  must be 50: {verdict}", row("null: ID against ID", &paper.null));
        for (name, values) in &paper.sets {
            let _ = writeln!(text, "{}", row(name, values));
        }
    }
    if let Some(measured) = document.spectral.as_ref().filter(|_| spectral) {
        let _ = writeln!(
            text,
            "\n{:<22}{:>9}{:>9}{:>9}  {:<14}{:>9}{:>9}{:>9}{:>7}  S > 2|E|  apart",
            "layer", "|E| <", "|E|", "S(ID)", "set", "S(OoD)", "margin", "5-95 %", "AUROC"
        );
        for (layer, set) in measured.layers.iter().flat_map(|layer| layer.sets.iter().map(move |set| (layer, set))) {
            let yes = |held: bool| if held { "yes" } else { "no" };
            let _ = writeln!(
                text,
                "{:<22}{:>9.4}{:>9.4}{:>9.4}  {:<14}{:>9.4}{:>9.4}{:>9.4}{:>7.1}  {:<9}  {}",
                layer.name,
                layer.noise_bound,
                layer.noise_measured,
                layer.id.s_least,
                set.name,
                set.residuals.s_least,
                set.margin,
                set.quantile_margin,
                100.0 * set.auroc,
                yes(set.inequality),
                yes(set.separated)
            );
        }
        let _ = writeln!(text, "{}", measured.says);
    }
    text
}
