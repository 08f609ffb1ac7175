//! Two processes on loopback: sums, gradients through them, and what is said when one is gone.
#![cfg(target_os = "linux")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fidgp_torch::{Group, Launched};
use tch::{Device, Kind, Tensor};

/// What a child of this test is to do.
const ROLE: &str = "FIDGP_TEST_ROLE";

/// Starts this test once more as rank `rank` of `size`, which plays a role.
fn start(role: &str, rank: usize, size: usize, port: u16) -> Child {
    start_with(role, rank, size, port, &[])
}

fn start_with(role: &str, rank: usize, size: usize, port: u16, more: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["a_child_plays_its_role", "--exact", "--nocapture"])
        .envs(
            [("RANK", rank), ("WORLD_SIZE", size), ("MASTER_PORT", port.into())].map(|(name, n)| (name, n.to_string())),
        )
        .envs([("MASTER_ADDR", "127.0.0.1"), (ROLE, role), ("OMP_NUM_THREADS", "1")])
        .envs(more.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What each rank of a play prints on lines that begin with `said: `.
fn play(role: &str, size: usize) -> Vec<String> {
    let port = free_port();
    let children: Vec<_> = (0..size).map(|rank| start(role, rank, size, port)).collect();
    children.into_iter().map(said).collect()
}

fn said(child: Child) -> String {
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once("said: ").map(|(_, rest)| rest));
    lines.collect::<Vec<_>>().join("\n")
}

/// The children come in here; in a run of the tests there is nothing to do.
#[test]
fn a_child_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let launched = Launched::from_environment().unwrap().unwrap();
    let timeout = Duration::from_millis(match role.as_str() {
        "late" => 1500,
        "hangs" | "stopped" | "mute" => 2500,
        _ => 20_000,
    });
    if role == "late" && launched.rank == 1 {
        return;
    }
    let group = match Group::join(&launched, Device::Cpu, timeout) {
        Ok(group) => group,
        Err(error) => return println!("said: {error}"),
    };
    match role.as_str() {
        "sums" => println!("said: {}", sums(&group)),
        "mute" => println!("said: {}", mute(&group)),
        "watched" => watched(&group),
        "wrong" => {
            let mut numbers = Tensor::zeros([2], (Kind::Int16, Device::Cpu));
            println!("said: {}", group.all_reduce(&mut numbers, "a sum").unwrap_err());
            group.leave();
        }
        "gradient" => println!("said: {}", gradient(&group)),
        "stopped" | "hangs" | "fails" => println!("said: {}", until_failure(&group, &role)),
        "killed" | "slow" => {
            println!("said: {}", until_failure(&group, &role));
            group.leave(); // whoever keeps the store stays until the others have asked it
        }
        other => panic!("{other} is no role"),
    }
}

fn numbers(tensor: &Tensor) -> String {
    format!("{:?}", Vec::<f64>::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap())
}

fn sums(group: &Group) -> String {
    let own = Tensor::from_slice(&[1.0, 10.0]) * (group.rank() + 1) as f64;
    let (mut sum, mut first) = (own.copy(), own.copy());
    group.all_reduce(&mut sum, "a sum").unwrap();
    group.broadcast(&mut first, 0, "a copy").unwrap();
    let all = group.all_gather(&own, "all").unwrap();
    group.barrier("the end").unwrap();
    let text = group.text_of_first("word", &format!("from {}", group.rank())).unwrap();
    let texts = group.texts("words", &group.rank().to_string()).unwrap().join(",");
    let again = group.text_of_first("word", &format!("again {}", group.rank())).unwrap();
    format!("{} {} {} {text} {texts} {again}", numbers(&sum), numbers(&first), numbers(&all))
}

/// Each process has one number a and the loss (Σa)² · its rank + 1; the mean with weights 1/4 and 3/4 has the gradient
/// 2 Σa (1/4 · 1 + 3/4 · 2) by either.
fn gradient(group: &Group) -> String {
    let a = Tensor::from(group.rank() as f64 + 1.0).set_requires_grad(true);
    let (weight, mass) = (group.rank() as f64 + 1.0, [1.0, 3.0][group.rank()]);
    let loss = group.sum(&a, mass, "a sum").unwrap().square() * weight;
    loss.backward();
    let mut mean = a.grad() * mass;
    group.all_reduce(&mut mean, "the gradient").unwrap();
    // each process's own number got Σ_r m_r ∂L_r/∂Σa / m: its share m of the mean makes it whole
    numbers(&Tensor::stack(&[a.grad() * mass / 4.0, mean / 4.0], 0))
}

/// The process that keeps the store stops before the first sum; the other asks it for a text.
fn mute(group: &Group) -> String {
    if group.rank() == 0 {
        std::thread::sleep(Duration::from_millis(300));
        Command::new("kill").args(["-STOP", &std::process::id().to_string()]).status().unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    group.texts("the config", "a").map_or_else(|error| error.to_string(), |texts| texts.join(","))
}

/// Waits for nothing, as one does who queues work for a GPU, while rank 1 is killed.
fn watched(group: &Group) {
    let (sender, receiver) = std::sync::mpsc::channel();
    group.watch(Duration::from_secs(2), move |error| sender.send(error).unwrap());
    if group.rank() == 1 {
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
    }
    println!("said: {}", receiver.recv_timeout(Duration::from_secs(40)).unwrap());
    group.leave();
}

/// Adds numbers up until something goes wrong, and says what. Rank 1 makes it go wrong; where a process is stopped it is
/// rank 0, which keeps the store.
fn until_failure(group: &Group, role: &str) -> String {
    let culprit = usize::from(role != "stopped");
    let own = std::process::id().to_string();
    let signal = |signal: &str| Command::new("kill").args([signal, &own]).status().unwrap();
    let mut one = Tensor::from(1.0);
    for step in 0.. {
        if step == 3 && role == "slow" && group.rank() == 2 {
            std::thread::sleep(Duration::from_secs(8)); // a long step, longer than others wait for a word
        }
        if step == 3 && group.rank() == culprit {
            match role {
                "killed" | "slow" => _ = signal("-9"),
                "stopped" => _ = signal("-STOP"),
                "hangs" => std::thread::sleep(Duration::from_secs(60)),
                _ => {
                    group.fail("the disk is full");
                    return "over".to_owned();
                }
            }
        }
        if let Err(error) = group.all_reduce(&mut one, &format!("step {step}")) {
            return error.to_string();
        }
    }
    unreachable!("the loop ends with an error")
}

#[test]
fn two_processes_add_up() {
    for line in play("sums", 2) {
        assert_eq!(line, "[3.0, 30.0] [1.0, 10.0] [1.0, 10.0, 2.0, 20.0] from 0 0,1 again 0");
    }
}

#[test]
fn gradients_flow_through_a_sum() {
    let whole = 2.0 * 3.0 * (0.25 + 0.75 * 2.0);
    for line in play("gradient", 2) {
        assert_eq!(line, format!("{:?}", [whole, 2.0 * whole]));
    }
}

#[test]
fn whoever_dies_is_named() {
    let port = free_port();
    let mut victim = start("killed", 1, 3, port);
    let others = [start("killed", 0, 3, port), start("killed", 2, 3, port)];
    let begun = Instant::now();
    let process = victim.id();
    for other in others {
        let line = said(other);
        assert!(line.contains(&format!("process {process}) died or does not answer")), "{line}");
        assert!(line.contains("waited for the others (step 3"), "{line}");
        assert!(!(line.contains("rank 0 of 3 (") && line.contains("rank 2 of 3 (")), "{line}");
    }
    assert!(!victim.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// A process in the middle of a long step has noticed nothing yet, which is no fault of its own.
#[test]
fn whoever_is_slow_is_not_blamed() {
    let port = free_port();
    let children: Vec<_> = (0..3).map(|rank| start("slow", rank, 3, port)).collect();
    let process = children[1].id();
    for (rank, child) in children.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let line = said(child);
        assert!(line.contains("rank 1 of 3 (") && !line.contains(" and rank"), "{rank}: {line}");
        assert!(line.ends_with(&format!("process {process}) died or does not answer")), "{rank}: {line}");
    }
}

/// A request to the store has no time limit of its own.
#[test]
fn a_store_that_is_silent_is_noticed_before_the_first_sum() {
    let port = free_port();
    let (mut keeper, other) = (start("mute", 0, 2, port), start("mute", 1, 2, port));
    let begun = Instant::now();
    let (process, line) = (keeper.id(), said(other));
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert!(line.contains(&format!("process {process}) died or does not answer")), "{line}");
    assert!(line.contains("waited for the others (the config"), "{line}");
    assert!(begun.elapsed() < Duration::from_secs(40));
}

/// What NCCL's calls do not notice a thread does.
#[test]
fn whoever_is_watched_is_named() {
    let port = free_port();
    let children: Vec<_> = (0..3).map(|rank| start("watched", rank, 3, port)).collect();
    let process = children[1].id();
    for (rank, child) in children.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let line = said(child);
        assert!(line.contains(" cannot go on: rank 1 of 3 ("), "{rank}: {line}");
        assert!(line.ends_with(&format!("process {process}) died or does not answer")), "{rank}: {line}");
    }
}

/// Where nobody is missing, libtorch's own reason is all there is to go by.
#[test]
fn libtorchs_reason_is_not_lost() {
    for line in play("wrong", 2) {
        assert!(line.contains("all are there") && line.contains("scalar type"), "{line}");
    }
}

/// The agents of torchrun on several machines count restarts each for itself.
#[test]
fn processes_with_other_counts_of_restarts_meet() {
    let port = free_port();
    let counted = |rank: usize| start_with("sums", rank, 2, port, &[("TORCHELASTIC_RESTART_COUNT", &rank.to_string())]);
    let children = [counted(0), counted(1)];
    for child in children {
        assert!(said(child).starts_with("[3.0, 30.0]"));
    }
}

/// Alive but not answering: noticed after the time-out, although the store may hang with it.
#[test]
fn whoever_hangs_is_named() {
    let what = [("hangs", 1, "does not come; it lives and does"), ("stopped", 0, "died or does not answer")];
    for (role, culprit, what) in what {
        let port = free_port();
        let (mut victim, other) = (start(role, culprit, 2, port), start(role, 1 - culprit, 2, port));
        let process = victim.id();
        let line = said(other);
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(line.contains(&format!("process {process}) {what}")), "{role}: {line}");
        assert!(line.contains("at most 2500 ms"), "{role}: {line}");
    }
}

#[test]
fn whoever_fails_is_quoted() {
    let lines = play("fails", 2);
    assert!(lines[0].contains("rank 1 of 2") && lines[0].ends_with("ended: the disk is full"), "{}", lines[0]);
}

#[test]
fn whoever_does_not_come_is_named() {
    let lines = play("late", 2);
    assert!(lines[0].contains("waited 1500 ms") && lines[0].ends_with("these did not come: rank 1"), "{}", lines[0]);
}
