//! `fidgp compress`

use std::path::Path;
use std::process::ExitCode;

use fidgp_decision::{Asked as AskedRules, Score};
use fidgp_lab::calibrate::{self, From, Recalibrate, Request};
use fidgp_lab::config::{RunConfig, ScheduleConfig};
use fidgp_lab::experiment::compress::{Asked, Drawn, FIGURE, Tuned, compress};
use fidgp_lab::predict::Trained;
use fidgp_lab::record::{write_atomically, write_json};
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::{LabError, experiment};
use fidgp_metrics::names;

use super::Outcome;
use super::wrap::{config_of, context_of};
use crate::args::Compress;
use crate::progress::EpochBar;

pub fn run(arguments: &Compress) -> Outcome {
    let config = config_of(&arguments.model, arguments.weights.as_deref(), &arguments.overrides)?;
    let context = context_of(&config, &arguments.place, arguments.out.as_deref(), arguments.force)?;
    let tunes = arguments.out.is_some() && arguments.epochs > 0;
    let config = if tunes { shortly(config, arguments.epochs) } else { config };
    let asked = Asked { budget: arguments.budget, curve: arguments.curve.clone(), images: arguments.images.get() };
    let mut report = compress(&config, &asked, &context, arguments.out.is_some(), &mut |text| tell!("{text}"))?;
    if tunes {
        report.tuned = Some(tuned(&Trained::config_of(&context.run)?, &context)?);
    }
    if arguments.json {
        super::print_json(&report)?;
    } else {
        super::print(&report.to_string())?;
    }
    if let Some(run) = &arguments.out {
        write_json(&run.join(format!("{FIGURE}.json")), &report)?;
        write_atomically(&run.join(format!("{FIGURE}.svg")), report.figure().standalone().as_bytes())?;
        let way = if tunes { format!("fidgp export {} --out MODEL", shown(run)) } else { context.resume_command };
        tell!("\nrun: {}\n{} with: {way}", run.display(), if tunes { "pass it on" } else { "train it" });
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(folder: &Path) -> String {
    super::quoted(&folder.display().to_string())
}

/// The config of a short training: the rate falls to 0 within it, and the whole objective holds from its beginning.
fn shortly(mut config: RunConfig, epochs: u64) -> RunConfig {
    config.train.epochs = epochs;
    config.train.schedule = ScheduleConfig::Cosine { warmup_epochs: 0.0 };
    (config.train.kl.ml_epochs, config.train.kl.annealing_epochs) = (0.0, 0.0);
    config.train.freeze_norm_epoch = None;
    config
}

/// Trains what was kept, calibrates it where there are examples for that, and measures it on the test images.
fn tuned(config: &RunConfig, context: &RunContext) -> Result<Tuned, LabError> {
    let resumed = RunContext {
        resume: true,
        force: false,
        command: context.command.clone(),
        resume_command: context.resume_command.clone(),
        ..RunContext::new(&context.run, context.data_root.clone(), context.device, context.stop)
    };
    let mut bar = EpochBar::new(config);
    experiment::run(config, &resumed, &mut bar)?;
    drop(bar);
    let validates = config.data.validation_fraction().is_some_and(|fraction| fraction > 0.0);
    if validates {
        let request = Request {
            folder: context.run.clone(),
            data: context.data_root.clone(),
            device: context.device,
            from: From::Validation,
            asked: AskedRules::usual(Score::Total),
            recalibrate: Recalibrate::Never,
            ood_score: None,
            target_inputs: None,
            foreign: Vec::new(),
            group: None,
        };
        calibrate::calibrate(&request, &mut |_, _| {})?;
    }
    let mut trained = Trained::open(&context.run, context.device)?;
    let temperature = trained.model.temperature;
    let metrics = experiment::evaluate(&mut trained, &resumed)?.metrics;
    let metric = |name: &str| metrics.get(name).copied().flatten().unwrap_or(f64::NAN);
    let drawn = Drawn {
        draws: config.predict.draws,
        accuracy: metric(names::CLS_ACC),
        nll: metric(names::CLS_NLL),
        ece: metric(names::CAL_ECE),
    };
    Ok(Tuned { epochs: config.train.epochs, temperature, drawn })
}
