//! What lies in `deploy/` is read by parsers, and agrees with the program: its options, paths and times.

use std::fs;
use std::path::{Path, PathBuf};

use fidgp_serve::Limits;
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn documents(name: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether words begin with `fidgp serve MODEL` and hold options that there are.
fn is_a_command(words: &[String], place: &str) {
    assert!(words[0].ends_with("fidgp") && words[1] == "serve", "{place}: {words:?}");
    let options = text("crates/fidgp-cli/src/args/serve.rs");
    for word in words.iter().filter_map(|word| word.strip_prefix("--")) {
        let field = format!("    pub {}:", word.replace('-', "_"));
        assert!(options.contains(&field), "{place}: there is no option --{word}");
    }
}

fn is_a_path(path: &str) {
    let described: Value = serde_json::from_str(&text("crates/fidgp-serve/src/page/openapi.json")).unwrap();
    assert!(described["paths"].get(path).is_some(), "there is no path {path}");
}

fn words(list: &Yaml) -> Vec<String> {
    list.as_vec().expect("a list").iter().map(|word| word.as_str().expect("a text").to_owned()).collect()
}

fn container(container: &Yaml, place: &str) {
    is_a_command(&words(&container["command"]), place);
    for probe in ["readinessProbe", "livenessProbe"] {
        if !container[probe].is_badvalue() {
            is_a_path(container[probe]["httpGet"]["path"].as_str().unwrap());
        }
    }
    let command = words(&container["command"]);
    let port = command.iter().position(|word| word == "--port").map(|place| command[place + 1].parse::<i64>().unwrap());
    assert_eq!(container["ports"][0]["containerPort"].as_i64(), port, "{place}");
    assert_eq!(container["readinessProbe"]["httpGet"]["port"].as_i64(), port, "{place}");
}

#[test]
fn the_kubernetes_manifests_agree_with_the_program() {
    let documents_of = documents("deploy/kubernetes.yaml");
    let [deployment, service] = &documents_of[..] else { panic!("a deployment and its service") };
    assert_eq!((deployment["kind"].as_str(), service["kind"].as_str()), (Some("Deployment"), Some("Service")));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    let pod = &deployment["spec"]["template"]["spec"];
    container(&pod["containers"][0], "kubernetes.yaml");
    let port = pod["containers"][0]["ports"][0]["containerPort"].as_i64();
    assert_eq!(service["spec"]["ports"][0]["targetPort"].as_i64(), port);
    let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
    assert!(grace as u64 > Limits::default().shutdown.as_secs(), "it is killed before it may end");
    let mounted = |mount: &Yaml| pod["volumes"].as_vec().unwrap().iter().any(|volume| volume["name"] == mount["name"]);
    assert!(pod["containers"][0]["volumeMounts"].as_vec().unwrap().iter().all(mounted));
    let scraped = &documents("deploy/prometheus.yaml")[0]["scrape_configs"][0];
    is_a_path(scraped["metrics_path"].as_str().unwrap());
    let relabelled = |place: usize| scraped["relabel_configs"][place]["regex"].as_str();
    assert_eq!((relabelled(0), relabelled(1)), (labels["app"].as_str(), port.map(|port| port.to_string()).as_deref()));
    let file = scraped["authorization"]["credentials_file"].as_str().unwrap();
    assert!(words(&pod["containers"][0]["command"]).iter().any(|word| word == file), "the server's token is {file}");

    let documents_of = documents("deploy/kserve.yaml");
    let [service] = &documents_of[..] else { panic!("one document") };
    assert_eq!(service["apiVersion"].as_str(), Some("serving.kserve.io/v1beta1"));
    container(&service["spec"]["predictor"]["containers"][0], "kserve.yaml");
}

#[test]
fn the_unit_and_the_dockerfile_agree_with_the_program() {
    let unit = text("deploy/fidgp.service");
    let value = |key: &str| {
        let lines: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix(&format!("{key}="))).collect();
        assert_eq!(lines.len(), 1, "{key} stands once");
        lines[0].to_owned()
    };
    is_a_command(&value("ExecStart").split(' ').map(str::to_owned).collect::<Vec<_>>(), "fidgp.service");
    assert!(value("LimitNOFILE").parse::<usize>().unwrap() >= 2 * Limits::default().connections);
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > Limits::default().shutdown.as_secs());
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
        assert!(line.split_once('=').is_some_and(|(key, _)| key.chars().all(char::is_alphanumeric)), "{line}");
    }
    let ignored = text(".dockerignore");
    for folder in ["target", ".git", ".cargo/config.toml"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder} would be sent to the container engine");
    }
    let dockerfile = text("deploy/Dockerfile");
    let entry = dockerfile.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    is_a_command(&serde_json::from_str::<Vec<String>>(entry).unwrap(), "Dockerfile");
    let toolchain = dockerfile.lines().find_map(|line| line.strip_prefix("FROM rust:1.")).unwrap();
    let manifest = text("Cargo.toml");
    let needed = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"1.")).unwrap();
    let minor = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u32>().unwrap();
    assert!(minor(toolchain) >= minor(needed), "the Dockerfile builds with Rust 1.{toolchain}, too old");
    assert!(dockerfile.contains("\nUSER "), "it does not run as root");
}

/// systemd's own check of the unit, where it is installed; the program is replaced by one that is there.
#[cfg(target_os = "linux")]
#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    use std::process::Command;
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return; // no systemd here
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("fidgp.service");
    fs::write(&unit, text("deploy/fidgp.service").replace("/usr/local/bin/fidgp ", "/bin/true ")).unwrap();
    let said = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let words = [said.stdout, said.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    let about_it: Vec<_> = words.lines().filter(|line| line.contains("fidgp.service")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
}
