//! What the repository claims: every file under `results/` can be read, says where it comes from, and keeps the promises
//! made about it. The README's tables are written from the same files.

use std::path::{Path, PathBuf};
use std::process::Command;

use fidgp_lab::record::Results;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recorded(folder: &str) -> Vec<(String, Results)> {
    let folder = root().join("results").join(folder);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("recorded results").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| (name(path), Results::read(path).unwrap()))
        .collect()
}

fn metric(results: &Results, name: &str) -> f64 {
    results.metrics.get(name).copied().flatten().unwrap_or_else(|| panic!("{} has no {name}", results.name))
}

#[test]
fn every_record_says_where_it_comes_from() {
    let all: Vec<_> = ["regression", "uci", "cifar100"].iter().flat_map(|folder| recorded(folder)).collect();
    assert!(all.len() >= 30, "{}", all.len());
    for (file, results) in all {
        assert!(
            results.commit.len() >= 12 && results.commit.chars().all(|c| c.is_ascii_hexdigit()),
            "{file}: {}",
            results.commit
        );
        let made = |command: &String| ["fidgp train ", "fidgp eval "].iter().any(|verb| command.starts_with(verb));
        assert!(results.command.as_ref().is_some_and(made), "{file}");
        assert!(results.cost.parameters > 0 && results.cost.macs > 0, "{file}");
    }
}

/// Every JSON file below a folder.
fn documents(folder: &Path) -> Vec<(PathBuf, serde_json::Value)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => documents(&path),
        Some(kind) if kind == "json" => {
            let document = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            vec![(path, document)]
        }
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}

/// A recorded config is one that this program takes: who wants the run again can have it. Two are of a commit that knew a key
/// which was given up, at the value that stands for what is done now.
#[test]
fn every_recorded_config_can_be_run_again() {
    let given_up = ["reference-100-epochs-sngp", "short-sngp-s42"];
    let mut configs = 0;
    for (path, mut document) in documents(&root().join("results")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(config) = document.get_mut("config").filter(|config| config.is_object()) else { continue };
        if given_up.contains(&name.as_str()) {
            assert_eq!(config["baseline"].as_object_mut().unwrap().remove("input_norm"), Some(false.into()), "{name}");
        }
        let text = toml::to_string(config).unwrap();
        let parsed = fidgp_lab::config::parse(&text, &[]);
        assert!(parsed.is_ok(), "{}: {}", path.display(), parsed.unwrap_err());
        configs += 1;
    }
    assert!(configs >= 150, "{configs}");
}

/// Benchmarks too; and an out-of-distribution table whose controls failed has no place here.
#[test]
fn every_benchmark_says_where_it_comes_from() {
    let read = |folder: &str| -> Vec<serde_json::Value> {
        let files = std::fs::read_dir(root().join("results").join(folder)).unwrap();
        files.map(|file| serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap()).collect()
    };
    let (ood, bench, compared) = (read("ood"), read("bench"), read("compare"));
    assert!(!ood.is_empty() && bench.len() >= 3 && !compared.is_empty());
    for record in ood.iter().chain(&bench).chain(&compared) {
        let commit = record["commit"].as_str().unwrap();
        assert!(commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
        assert!(record["command"].as_str().is_some_and(|command| !command.is_empty()));
        assert!(record["hardware"]["cpu"].as_str().is_some());
    }
    for record in &ood {
        let held = |control: &serde_json::Value| control["passed"] == true;
        assert!(record["controls"].as_array().unwrap().iter().all(held) && record["controls_skipped"] == false);
    }
}

/// The three promises of the one-dimensional regression, for both panels, on seeds that were not used to choose anything:
/// each holds for the mean over the three seeds, coverage for every one of them.
#[test]
fn the_network_knows_where_it_has_seen_data() {
    let runs = recorded("regression");
    for panel in ["left", "right"] {
        let of = |method: &str| -> Vec<&Results> {
            let prefix = format!("regression-{panel}-{method}-s");
            runs.iter().filter(|(file, _)| file.starts_with(&prefix)).map(|(_, results)| results).collect()
        };
        let (ours, plain) = (of("fidgp"), of("deterministic"));
        let seeds = |runs: &[&Results]| runs.iter().map(|run| run.seed).collect::<Vec<_>>();
        assert_eq!((seeds(&ours), seeds(&plain)), (vec![51, 52, 53], vec![51, 52, 53]), "{panel}");
        let mean = |runs: &[&Results], name: &str| runs.iter().map(|run| metric(run, name)).sum::<f64>() / 3.0;
        let ratio = mean(&ours, "reg/RMSE_truth") / mean(&plain, "reg/RMSE_truth");
        assert!(ratio <= 1.5, "{panel}: RMSE is {ratio} times the deterministic one");
        let gap = mean(&ours, "reg/EpistemicSD_gap") / mean(&ours, "reg/EpistemicSD_in_range");
        assert!(gap >= 1.5, "{panel}: the gap is only {gap} times as uncertain");
        for ours in ours {
            let coverage = metric(ours, "reg/Coverage");
            assert!((0.88..=0.99).contains(&coverage), "{panel} seed {}: coverage {coverage}", ours.seed);
            let weight = ours.config["train"]["kl"]["weight"].as_f64().unwrap();
            assert!((weight - 1.0).abs() < f64::EPSILON, "{panel}: tempered");
        }
    }
}

#[test]
fn uci_records_hold_the_splits_they_are_said_to() {
    let runs = recorded("uci");
    let whole = ["boston", "concrete", "energy", "power", "wine", "yacht"].map(|set| (set, 20));
    for (set, splits) in whole.into_iter().chain([("kin8nm", 5)]) {
        for method in ["fidgp", "ffgu", "deterministic"] {
            let file = format!("{set}-{method}");
            let (_, results) =
                runs.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("{file} is missing"));
            assert_eq!(results.method, method, "{file}");
            assert_eq!(results.splits.as_ref().map(|splits| splits.runs.len()), Some(splits), "{file}");
            assert!(metric(results, "reg/NLL").is_finite() && metric(results, "reg/RMSE") > 0.0, "{file}");
        }
    }
}

#[test]
fn the_readme_shows_what_is_recorded() {
    let status = Command::new("python3").arg(root().join("scripts/readme")).arg("--check").status().expect("python3");
    assert!(status.success());
}
