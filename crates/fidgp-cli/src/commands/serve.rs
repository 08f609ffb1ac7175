//! `fidgp serve`

mod model;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fidgp_lab::predict::Trained;
use fidgp_lab::{LabError, device};
use fidgp_serve::log::PredictionLog;
use fidgp_serve::repository::{Open, Repository};
use fidgp_serve::security::Token;
use fidgp_serve::server::Settings;
use fidgp_serve::{Address, Limits, Server, Tls};
use tch::Device;

use super::Outcome;
use super::train::threads_for;
use crate::args::Serve;
use model::ServedModel;

/// A prediction log begins a new file after so many bytes.
const LOG_BYTES: u64 = 100 << 20;
/// Older files of the log that are kept.
const LOG_FILES: usize = 4;

pub fn run(arguments: &Serve) -> Outcome {
    let folders = arguments.models.iter().map(|model| named(model)).collect::<Result<Vec<_>, _>>()?;
    let device = device::choose(&arguments.device)?;
    let settings = settings(arguments)?;
    set_threads(arguments, &folders)?;
    let stop = super::stop_on_interrupt();
    let limits = limits(arguments);
    let names: Vec<_> = folders.iter().map(|(name, _)| name.clone()).collect();
    let repository = Repository::open(
        folders,
        limits.clone(),
        opener(device, arguments.picture_mp.map(|mp| u64::from(mp) * 1_000_000)),
    )
    .map_err(|why| LabError::config("MODEL", why))?;
    let address = Address { host: arguments.host.clone(), port: arguments.port };
    let tls =
        arguments.tls_cert.clone().zip(arguments.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let open_to_all = settings.token.is_none() && !is_loopback(&arguments.host);
    let taken = |error: std::io::Error| {
        LabError::config("--host, --port", format!("{}:{}: {error}", arguments.host, arguments.port))
    };
    let server = Server::bind(&address, tls, repository, limits, settings).map_err(taken)?;
    let bound = server.address().map_err(taken)?;
    if open_to_all {
        tell!("warning: anyone who can reach {bound} can send requests; --token-file FILE requires a token");
    }
    tell!("serving {} at {scheme}://{bound} (Ctrl-C stops)", names.join(", "));
    server.run(stop).map_err(|error| LabError::config("serve", error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// `NAME=FOLDER`, or a folder under its own name.
fn named(model: &str) -> Result<(String, PathBuf), LabError> {
    let (name, folder) = match model.split_once('=') {
        Some((name, folder)) if !Path::new(model).exists() => (name.to_owned(), PathBuf::from(folder)),
        _ => {
            let folder = PathBuf::from(model);
            let missing = |error: std::io::Error| LabError::config(folder.display().to_string(), error.to_string());
            let whole = folder.canonicalize().map_err(missing)?;
            let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_else(|| "model".to_owned()), folder)
        }
    };
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        let why = format!(
            "`{name}` cannot be the name of a served model: use letters, digits, `-`, `_` and `.`, as in NAME={}",
            folder.display()
        );
        return Err(LabError::config("MODEL", why));
    }
    Ok((name, folder))
}

/// Opens a folder on a device. Device and folder are all that a model needs, so it can be opened again when it changes.
fn opener(device: Device, most_pixels: Option<u64>) -> Box<Open> {
    Box::new(move |folder| {
        let trained = Trained::open(folder, device).map_err(|error| error.to_string())?;
        let model =
            ServedModel::new(folder, trained, most_pixels).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Box::new(model))
    })
}

/// One setting for the process: as many threads as the model needs that needs most.
fn set_threads(arguments: &Serve, folders: &[(String, PathBuf)]) -> Result<(), LabError> {
    let mut threads = 1;
    let configs = folders.iter().filter_map(|(_, folder)| Trained::config_of(folder).ok()); // who has none is named when opened
    for config in configs {
        threads = threads.max(threads_for(&config, arguments.threads)?);
    }
    tch::set_num_threads(threads);
    Ok(())
}

fn settings(arguments: &Serve) -> Result<Settings, LabError> {
    let token = |file: &PathBuf| {
        let text = fidgp_files::text(file).map_err(|error| LabError::file(file, &error))?;
        Token::new(&text).map_err(|why| LabError::File { path: file.clone(), why })
    };
    let log = |file: &PathBuf| {
        let log = PredictionLog::open(file, LOG_BYTES, LOG_FILES, arguments.log_inputs);
        log.map_err(|error| LabError::file(file, &error))
    };
    Ok(Settings {
        token: arguments.token_file.as_ref().map(token).transpose()?,
        log: arguments.log.as_ref().map(log).transpose()?,
        control: arguments.allow_control,
    })
}

fn limits(arguments: &Serve) -> Limits {
    Limits {
        body: (arguments.body_mb as usize) << 20,
        queue: arguments.queue as usize,
        batch: arguments.batch as usize,
        window: Duration::from_millis(arguments.window_ms),
        computing: arguments.computing.get().into(),
        time: Duration::from_secs(arguments.timeout),
        ..Limits::default()
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
