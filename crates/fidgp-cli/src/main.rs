//! `fidgp`: the command line of the FiD-GP toolkit.

/// Writes a line to standard error, under `--quiet` if it is an error or a warning. Who cannot be told (a full disk, a reader that has gone) is no reason to end a training.
macro_rules! tell {
    ($($words:tt)*) => {{
        $crate::words::say(&format!($($words)*));
    }};
}

mod args;
mod commands;
mod help;
mod panic;
mod progress;
mod words;

use std::io::IsTerminal;
use std::num::NonZero;
use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Arguments, Command, LogFormat};
use commands::Outcome;

fn main() -> ExitCode {
    panic::say_what_to_report();
    if let Err(unsound) = fidgp_files::limits::check_environment() {
        tell!("error: {unsound}");
        return ExitCode::from(2);
    }
    fidgp_torch::keep_freed_memory();
    fidgp_report::record::built_from(env!("FIDGP_BUILT_FROM"));
    // The CUDA part of libtorch must be opened before the first call into libtorch.
    let cuda = fidgp_lab::device::prepare();
    fidgp_torch::wait_briefly();
    let typed = help::command().get_matches();
    let arguments = Arguments::from_arg_matches(&typed).unwrap_or_else(|error| error.exit());
    words::be_quiet(arguments.quiet);
    bound_threads(&typed);
    listen(if let Command::Serve(serve) = &arguments.command { serve.requests } else { None });
    let alone = commands::processes::alone(typed.subcommand_name().unwrap_or_default());
    match panic::caught(|| alone.and_then(|()| run(&arguments.command, &cuda))) {
        None => ExitCode::FAILURE, // the hook has said it
        Some(Ok(code)) => code,
        Some(Err(error)) => {
            tell!("error: {}", words::without_trace(&error.to_string()));
            ExitCode::from(if error.is_misuse() { 2 } else { 1 })
        }
    }
}

/// `--threads` of any command holds what computes outside libtorch too, before any of it runs.
fn bound_threads(typed: &clap::ArgMatches) {
    let asked = typed.subcommand().and_then(|(_, typed)| typed.try_get_one::<NonZero<u16>>("threads").ok()?);
    if let Some(threads) = asked {
        fidgp_lab::device::bound_threads(commands::threads::at_most_useful(usize::from(threads.get())));
    }
}

/// Writes what is traced to standard error; of a server every request, where that is asked for.
fn listen(requests: Option<LogFormat>) {
    let usual = if requests.is_some() { "warn,start=info,serve=info" } else { "warn,start=info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("FIDGP_LOG").unwrap_or_else(|_| usual.into());
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .log_internal_errors(false) // it would panic where standard error cannot be written
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_env_filter(filter);
    match requests {
        None => log.without_time().init(),
        Some(LogFormat::Text) => log.init(),
        Some(LogFormat::Json) => log.json().flatten_event(true).with_ansi(false).init(),
    }
}

fn run(command: &Command, cuda: &fidgp_torch::CudaLibrary) -> Outcome {
    match command {
        Command::Demo(arguments) => commands::demo::run(arguments),
        Command::Init(arguments) => commands::init::run(arguments),
        Command::Train(arguments) => commands::train::run(arguments),
        Command::Launch(arguments) => commands::launch::run(arguments),
        Command::Eval(arguments) => commands::eval::run(arguments),
        Command::Calibrate(arguments) => commands::calibrate::run(arguments),
        Command::FitPosterior(arguments) => commands::fit_posterior::run(arguments),
        Command::Reference(arguments) => commands::reference::run(arguments),
        Command::Predict(arguments) => commands::predict::run(arguments),
        Command::Monitor(arguments) => commands::monitor::run(arguments),
        Command::Serve(arguments) => commands::serve::run(arguments),
        Command::Ood(arguments) => commands::ood::run(arguments),
        Command::Wrap(arguments) => commands::wrap::run(arguments),
        Command::Compress(arguments) => commands::compress::run(arguments),
        Command::Export(arguments) => commands::export::run(arguments),
        Command::Onnx(arguments) => commands::onnx::run(arguments),
        Command::Compare(arguments) => commands::compare::run(arguments),
        Command::Report(arguments) => commands::report::run(arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Complexity(arguments) => commands::complexity::run(arguments),
        Command::Cost(arguments) => commands::cost::run(arguments),
        Command::Verify(arguments) => commands::verify::run(arguments),
        Command::Data(arguments) => commands::data::run(arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments, cuda),
        Command::Completions(arguments) => commands::documents::completions(arguments),
        Command::Man(arguments) => commands::documents::man(arguments),
    }
}
