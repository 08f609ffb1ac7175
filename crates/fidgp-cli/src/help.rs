//! The first page of the help: what to type first, and the commands by what they are for.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Arguments;

/// From data to a service, as one types it.
const STORY: &str = "Start here:
  fidgp demo                             train a small network, plot what it does not know
  fidgp init DATA --out config.toml      your own table, pictures or ONNX network: write a config
  fidgp train config.toml                train it
  fidgp calibrate runs/NAME              when to trust a prediction, on held-out data
  fidgp predict runs/NAME INPUT          predictions with their uncertainty
  fidgp report runs/NAME                 one HTML page
  fidgp serve runs/NAME                  the model over HTTP
";

const GROUPS: [(&str, &[&str]); 5] = [
    ("Train", &["demo", "init", "train", "launch", "wrap", "compress", "fit-posterior"]),
    ("Use", &["predict", "calibrate", "serve", "monitor", "report", "export"]),
    ("Measure", &["eval", "ood", "compare", "reference"]),
    ("Cost", &["cost", "complexity", "bench"]),
    ("Look and check", &["data", "onnx", "doctor", "verify", "completions", "man"]),
];

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{after-help}\n\nOptions:\n{options}\n\n\
    `fidgp COMMAND --help` explains a command, with examples.\n";

/// What can be typed, with its help.
pub fn command() -> Command {
    let command = Arguments::command();
    let groups = grouped(&command);
    command.help_template(TEMPLATE).after_help(format!("{STORY}\n{}", groups.trim_end()))
}

/// The commands in their groups, each with what it does.
fn grouped(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let _ = writeln!(text, "  {name:<14} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = Arguments::command();
        let mut known: Vec<_> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let mut listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().map(ToString::to_string)).collect();
        known.sort();
        listed.sort();
        assert_eq!(known, listed);
        assert!(grouped(&command).lines().all(|line| !line.starts_with(' ') || line.trim().contains(' ')));
    }

    #[test]
    fn what_is_typed_is_consistent() {
        command().debug_assert();
    }
}
