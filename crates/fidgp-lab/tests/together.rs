//! A training by several processes is the training by one, but for rounding.
#![cfg(target_os = "linux")]

mod fixture;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fidgp::Key;
use fidgp_lab::Result;
use fidgp_lab::config::RunConfig;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::source::Source;
use fidgp_lab::train::group::{Share, agree};
use fidgp_lab::train::{Fit, Watch};
use fidgp_torch::{Group, Launched};
use tch::{Device, Kind, Tensor};

/// What a child of this test is to do.
const ROLE: &str = "FIDGP_TEST_ROLE";
const EPOCHS: &str = "train.epochs=17";

/// Points of a curve in f64.
struct Curve(Tensor);

impl Source for Curve {
    fn len(&self) -> usize {
        self.0.size()[0] as usize
    }

    fn batch(&self, rows: &Tensor, _: Option<Key>) -> Result<(Tensor, Tensor)> {
        let x = self.0.index_select(0, rows);
        Ok((x.shallow_clone(), (&x * 3.0).sin().squeeze_dim(1)))
    }
}

/// The loss so far, after every step.
#[derive(Default)]
struct Losses(Vec<f64>);

impl Watch for Losses {
    fn step(&mut self, _: u64, _: u64, _: u64, loss: f64) {
        self.0.push(loss);
    }
}

/// 51 steps on 20 points in f64: batches of 7, 7 and 6, which two and four processes share unevenly.
fn losses(config: &RunConfig, share: Option<Share>) -> Vec<f64> {
    let mut model = Model::init(config, &Signature::Regression { features: 1 }, Device::Cpu).unwrap();
    model.store.double();
    let source = Curve(Key::new(5).normal(&[20, 1], Kind::Double, Device::Cpu));
    let (stop, mut losses) = (AtomicBool::new(false), Losses::default());
    let fit = Fit {
        model: &model,
        config: &config.train,
        seed: config.seed,
        source: &source,
        validate: None,
        run: None,
        stop: &stop,
        resume_command: "",
        share,
    };
    fit.run(false, &mut losses).unwrap();
    losses.0
}

fn config(changes: &[&str]) -> RunConfig {
    fixture::config(fixture::CURVE, &[&[EPOCHS, "train.batch_size=7"], changes].concat())
}

/// The roles: changes to the config, and what they are for.
fn changes(role: &str) -> &'static [&'static str] {
    match role {
        "sync" => &["train.sync_norm=true"],
        "apart" => &[],
        "sharp" => &["train.sync_norm=true", "train.sharpness=0.05"],
        "no-norm" => &["network.batch_norm=false", "train.batch_size=9"], // the last batch has two rows
        "short" => &["train.batch_size=9"],
        "short-sync" => &["train.batch_size=9", "train.sync_norm=true"],
        other => panic!("{other} is no role"),
    }
}

fn start(role: &str, rank: usize, size: usize, port: u16) -> Child {
    let numbers = [("RANK", rank), ("WORLD_SIZE", size), ("MASTER_PORT", port.into())];
    Command::new(std::env::current_exe().unwrap())
        .args(["a_child_plays_its_role", "--exact", "--nocapture"])
        .envs(numbers.map(|(name, number)| (name, number.to_string())))
        .envs([("MASTER_ADDR", "127.0.0.1"), (ROLE, role), ("OMP_NUM_THREADS", "1")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What each rank says.
fn play(role: &str, size: usize) -> Vec<String> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let children: Vec<_> = (0..size).map(|rank| start(role, rank, size, port)).collect();
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let lines = |text: String| text.lines().find_map(|line| Some(line.split_once("said: ")?.1.to_owned()));
    children.into_iter().map(|child| lines(said(child)).expect("a child says something")).collect()
}

/// The children come in here; in a run of the tests there is nothing to do.
#[test]
fn a_child_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    tch::set_num_threads(1);
    let launched = Launched::from_environment().unwrap().unwrap();
    let group = Arc::new(Group::join(&launched, Device::Cpu, Duration::from_secs(120)).unwrap());
    if role == "differ" {
        let refused = agree(&group, "the config", if launched.rank == 1 { "b" } else { "a" }).unwrap_err();
        println!("said: {refused}");
        return group.leave();
    }
    let config = config(changes(&role));
    let losses = losses(&config, Some(Share::new(Arc::clone(&group), config.train.sync_norm)));
    group.leave();
    println!("said: {}", losses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
}

/// The largest difference, relative to the losses, of a training by so many processes from that by one.
fn farthest(role: &str, size: usize) -> f64 {
    tch::set_num_threads(1);
    let alone = losses(&config(changes(role)), None);
    assert_eq!(alone.len(), 51);
    let gaps = play(role, size).into_iter().flat_map(|line| {
        let found: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        assert_eq!(found.len(), alone.len());
        let gap = |(found, alone): (&f64, &f64)| (found - alone).abs() / alone.abs().max(1.0);
        found.iter().zip(&alone).map(gap).collect::<Vec<_>>()
    });
    gaps.fold(0.0, f64::max)
}

#[test]
fn two_and_four_processes_train_as_one() {
    for (role, size) in [("sync", 2), ("sync", 4), ("no-norm", 4), ("sharp", 2)] {
        let gap = farthest(role, size);
        assert!(gap < 1e-5, "{role} by {size}: {gap:e}");
    }
}

/// Of a batch of 20 − 2 · 9 rows each process has one, or none.
#[test]
fn parts_too_short_for_statistics_have_those_of_the_batch() {
    let text = play("short", 2);
    assert!(text.iter().all(|line| line.split(' ').all(|loss| loss.parse::<f64>().unwrap().is_finite())), "{text:?}");
    let gap = farthest("short-sync", 4);
    assert!(gap < 1e-5, "{gap:e}");
}

/// Statistics of parts of a batch are not those of the whole: the test above sees such a difference.
#[test]
fn norms_of_parts_are_another_training() {
    let gap = farthest("apart", 2);
    assert!(gap > 1e-3, "{gap:e}");
}

#[test]
fn who_trains_something_else_is_refused() {
    for line in play("differ", 3) {
        assert!(
            line.contains("the config of rank 1 of 3 (") && line.contains("is not that of rank 0 of 3 ("),
            "{line}"
        );
    }
}
