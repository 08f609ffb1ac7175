//! A training by several processes is the training by one, but for rounding.
#![cfg(target_os = "linux")]

mod fixture;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fidgp::Key;
use fidgp_lab::Result;
use fidgp_lab::config::RunConfig;
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::source::Source;
use fidgp_lab::train::group::{Share, agree};
use fidgp_lab::train::{Fit, Watch};
use fidgp_torch::{Group, Launched};
use fixture::several::{self, Play};
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

/// In f64: 51 steps on 20 points, in batches of 7, 7 and 6, which two and four processes share unevenly; or what a role says.
fn play_of(role: &str) -> Play {
    match role {
        "classes" => several::classes(),
        "pixels" => several::pixels(),
        "rows" => several::rows(),
        _ => Play {
            config: config(changes(role)),
            signature: Signature::Regression { features: 1 },
            source: Box::new(Curve(Key::new(5).normal(&[20, 1], Kind::Double, Device::Cpu))),
        },
    }
}

fn model_of(Play { config, signature, .. }: &Play) -> Model {
    let mut model = Model::init(config, signature, Device::Cpu).unwrap();
    model.store.double();
    model
}

fn losses(play: &Play, share: Option<Share>) -> Vec<f64> {
    let (model, mut losses) = (model_of(play), Losses::default());
    fit(play, &model, share, (None, false), &AtomicBool::new(false), &mut losses).unwrap();
    losses.0
}

fn fit(
    Play { config, source, .. }: &Play,
    model: &Model,
    share: Option<Share>,
    (run, resume): (Option<&Path>, bool),
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<()> {
    let fit = Fit {
        model,
        config: &config.train,
        seed: config.seed,
        source: source.as_ref(),
        validate: None,
        run: run.map(Path::to_owned),
        stop,
        resume_command: "",
        share,
    };
    fit.run(resume, watch).map(|_| ())
}

fn config(changes: &[&str]) -> RunConfig {
    fixture::config(fixture::CURVE, &[&[EPOCHS, "train.batch_size=7"], changes].concat())
}

/// Raises the flag in the middle of an epoch.
struct StopsAt<'a>(u64, u64, &'a AtomicBool);

impl Watch for StopsAt<'_> {
    fn step(&mut self, epoch: u64, step: u64, _: u64, _: f64) {
        self.2.fetch_or((epoch, step) == (self.0, self.1), Ordering::Relaxed);
    }
}

/// The running statistics at the end of a training without `sync_norm`, which is stopped once, or not.
fn running(group: &Arc<Group>, stopped: bool) -> Vec<f64> {
    let (play, place) = (play_of("apart"), tempfile::tempdir().unwrap());
    let share = || Some(Share::new(Arc::clone(group), false));
    let run = (group.rank() == 0).then(|| place.path());
    let mut model = model_of(&play);
    if stopped {
        let stop = AtomicBool::new(false);
        let mut watch = StopsAt(3, if group.rank() == 1 { 1 } else { 99 }, &stop); // a process is asked, all stop
        let error = fit(&play, &model, share(), (run, false), &stop, &mut watch).unwrap_err();
        assert!(error.to_string().contains("stopped"), "{error}");
        model = model_of(&play);
    }
    fit(&play, &model, share(), (run, stopped), &AtomicBool::new(false), &mut ()).unwrap();
    let mut all: Vec<_> = model.store.variables().into_iter().filter(|(name, _)| name.contains("running")).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.iter().flat_map(|(_, tensor)| Vec::<f64>::try_from(tensor.flatten(0, -1)).unwrap()).collect()
}

/// The roles: changes to the config, and what they are for.
fn changes(role: &str) -> &'static [&'static str] {
    match role {
        "beta" => &["network.batch_norm=false", "likelihood.noise={kind=\"predicted\"}", "likelihood.beta_nll=0.5"],
        "beta-short" => &[
            "network.batch_norm=false",
            "likelihood.noise={kind=\"predicted\"}",
            "likelihood.beta_nll=0.5",
            "train.batch_size=9",
        ],
        "pieces" => &["network.batch_norm=false", "train.batch_size=8", "train.accumulate=2"],
        "own-draws" => &["network.batch_norm=false", "method=\"fidgp\"", "train.weight_draws=\"own\""],
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
    let numbers = match role.as_str() {
        "stopped" | "unstopped" => running(&group, role == "stopped"),
        role => {
            let play = play_of(role);
            losses(&play, Some(Share::new(Arc::clone(&group), play.config.train.sync_norm)))
        }
    };
    group.leave();
    println!("said: {}", numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
}

fn numbers(line: &str) -> Vec<f64> {
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// The largest difference, relative to their size.
fn gap(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let gap = |(found, expected): (&f64, &f64)| {
        let gap = (found - expected).abs() / expected.abs().max(1.0);
        if gap.is_nan() { f64::INFINITY } else { gap }
    };
    found.iter().zip(expected).map(gap).fold(0.0, f64::max)
}

/// The largest difference of a training by so many processes from that by one.
fn farthest(role: &str, size: usize) -> f64 {
    farthest_from(role, role, size)
}

fn farthest_from(alone: &str, role: &str, size: usize) -> f64 {
    tch::set_num_threads(1);
    let alone = losses(&play_of(alone), None);
    assert!(alone.len() >= 50, "{}", alone.len());
    play(role, size).iter().map(|line| gap(&numbers(line), &alone)).fold(0.0, f64::max)
}

#[test]
fn two_and_four_processes_train_as_one() {
    for (role, size) in [("sync", 2), ("sync", 4), ("no-norm", 4), ("sharp", 2)] {
        let gap = farthest(role, size);
        assert!(gap < 1e-5, "{role} by {size}: {gap:e}");
    }
}

/// Classes with weights, one of which is 0, under random crops; rows of a table; masks with pixels that have no class, some
/// pictures with nothing else.
#[test]
fn classes_rows_and_pixels_train_as_by_one() {
    for (role, size) in [("rows", 2), ("classes", 2), ("classes", 4), ("pixels", 2), ("pixels", 4)] {
        let gap = farthest(role, size);
        assert!(gap < 1e-9, "{role} by {size}: {gap:e}");
    }
}

/// β-NLL's weights have the mean 1 over the whole batch.
#[test]
fn weighted_examples_train_as_by_one() {
    for (role, size) in [("beta", 2), ("beta", 4), ("beta-short", 4)] {
        let gap = farthest(role, size);
        assert!(gap < 1e-5, "{role} by {size}: {gap:e}");
    }
}

/// One process with pieces, and two with pieces of their parts, train as one without.
#[test]
fn pieces_of_a_batch_add_up() {
    tch::set_num_threads(1);
    let whole = losses(
        &Play { config: config(&["network.batch_norm=false", "train.batch_size=8"]), ..play_of("pieces") },
        None,
    );
    let alone = gap(&losses(&play_of("pieces"), None), &whole);
    assert!(alone < 1e-9, "{alone:e}");
    for line in play("pieces", 2) {
        let gap = gap(&numbers(&line), &whole);
        assert!(gap < 1e-9, "{gap:e}");
    }
}

/// Draws of their own are another training, the same on all processes.
#[test]
fn processes_may_draw_weights_of_their_own() {
    let lines = play("own-draws", 2);
    assert_eq!(lines[0], lines[1]);
    tch::set_num_threads(1);
    let alone = losses(&play_of("own-draws"), None);
    let far = gap(&numbers(&lines[0]), &alone);
    assert!(far.is_finite() && far > 1e-6, "{far:e}");
}

/// Each process has running statistics of its own parts until they are averaged: also where a training is stopped in between.
#[test]
fn a_stopped_training_goes_on_with_everybodys_statistics() {
    let (stopped, whole) = (play("stopped", 2), play("unstopped", 2));
    assert_eq!(whole[0], whole[1]);
    for line in stopped {
        let gap = gap(&numbers(&line), &numbers(&whole[0]));
        assert!(gap < 1e-9, "{gap:e}");
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
