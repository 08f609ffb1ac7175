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
        let long: Vec<_> = grouped(&command).lines().filter(|line| line.len() > 100).map(str::to_owned).collect();
        assert!(long.is_empty(), "would be broken: {long:?}");
    }

    /// The commands of the README and of every page of the guide, in the blocks of a shell.
    fn documented() -> Vec<(String, String)> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders down");
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs", "docs/start", "docs/use", "docs/understand", "docs/reference"] {
            let found = std::fs::read_dir(root.join(folder)).expect("a folder of pages");
            pages.extend(
                found
                    .map(|entry| entry.expect("an entry").path())
                    .filter(|path| path.extension() == Some("md".as_ref())),
            );
        }
        let mut all = Vec::new();
        for page in pages {
            let text = std::fs::read_to_string(&page).expect("a page").replace("\\\n", " ");
            for block in text
                .split("```")
                .skip(1)
                .step_by(2)
                .filter(|block| block.starts_with("sh\n") || block.starts_with("console\n"))
            {
                let typed = block.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line).trim());
                let ours = typed.filter(|line| line.starts_with("fidgp "));
                all.extend(ours.map(|line| (page.display().to_string(), line.to_owned())));
            }
        }
        all
    }

    /// What a shell makes of a line of words, quotes and a comment, up to a pipe.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" #").next().unwrap_or_default().split(" | ").next().unwrap_or_default();
        let line = line.split(" > ").next().unwrap_or_default();
        let mut words = vec![String::new()];
        let mut quote = None;
        for sign in line.chars() {
            match (sign, quote) {
                ('\'' | '"', None) => quote = Some(sign),
                (sign, Some(open)) if sign == open => quote = None,
                (' ', None) => words.push(String::new()),
                (sign, _) => words.last_mut().expect("never empty").push(if sign == '$' { '0' } else { sign }),
            }
        }
        words.into_iter().filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn every_command_of_the_guide_can_be_typed() {
        let all = documented();
        assert!(all.len() > 40, "{}", all.len());
        for (page, line) in all {
            let words = words(&line.replace("$SLURM_ARRAY_TASK_ID", "0"));
            if let Err(error) = command().try_get_matches_from(&words) {
                panic!("{page}: `{line}`: {error}");
            }
        }
    }

    #[test]
    fn what_is_typed_is_consistent() {
        command().debug_assert();
    }
}
