//! Many clients at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fidgp_serve::Limits;
use fidgp_serve::server::Settings;

use crate::running::{INFER, Running, rows};

/// Eight clients ask on while the folder changes five times: every request is answered, by one model or the other.
#[test]
fn updates_under_load_lose_no_request() {
    let server = Running::plain();
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (status, said) = server.post(INFER, &rows(&[[1.0, 2.0]]));
                    let mean = said["outputs"][0]["data"][0].as_f64().unwrap_or(f64::NAN);
                    let known = (0..=5).any(|offset| (mean - 3.0 - f64::from(offset)).abs() < 1e-9);
                    assert!(status == 200 && known, "{status} {said}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for offset in 1..=5 {
            let new = server.folder.path().join("offset.new");
            std::fs::write(&new, offset.to_string()).unwrap();
            std::fs::rename(&new, server.folder.path().join("offset")).unwrap();
            let until = Instant::now() + Duration::from_secs(30);
            while server.post(INFER, &rows(&[[1.0, 2.0]])).1["outputs"][0]["data"][0] != 3.0 + f64::from(offset) {
                assert!(Instant::now() < until, "the model of offset {offset} is not served");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(asked.load(Ordering::Relaxed) > 40);
}

/// Who asks alone is answered at once, whatever the window; who asks in company shares batches.
#[test]
fn only_company_is_waited_for() {
    let limits = Limits { window: Duration::from_secs(20), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "a lone request waited {:?} for others", begun.elapsed());
    let limits = Limits { window: Duration::from_millis(1), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(server.post(INFER, &rows(&[[15.0, 0.0]; 3])).0, 200)); // 2 s
        while server.metric("fidgp_queue_inputs") < 1.0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200));
        }
    });
    let batches = server.metric("nv_inference_exec_count");
    assert!(batches < 9.0, "nine requests went through in {batches} batches");
}

/// More than fits is refused at once, with 429 and a word when to come again; what was taken is answered.
#[test]
fn overload_is_refused_at_once() {
    let limits = Limits { queue: 8, batch: 1, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let ask = || {
        let begun = Instant::now();
        let body = rows(&[[15.0, 0.0]]).to_string();
        let (status, head, _) = server.ask("POST", INFER, "Content-Type: application/json\r\n", body.as_bytes());
        let again = head.lines().find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse::<u64>().ok());
        (status, again, begun.elapsed())
    };
    assert_eq!(ask().0, 200); // now it knows the pace: 0.7 s
    let said: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (taken, refused): (Vec<_>, Vec<_>) = said.into_iter().partition(|(status, ..)| *status == 200);
    assert_eq!(taken.len() + refused.len(), 40);
    assert!(taken.len() >= 8 && refused.len() >= 20, "{} taken, {} refused", taken.len(), refused.len());
    for (status, again, time) in refused {
        let again = again.unwrap_or(0); // eight times 0.7 s are waiting
        assert!(status == 429 && (5..=12).contains(&again), "{status}, {again} s");
        assert!(time < Duration::from_secs(5), "a refusal took {time:?}");
    }
}

/// What makes the model panic spoils its own place alone, whoever it shares a batch with.
#[test]
fn one_input_that_the_model_cannot_bear_spoils_no_other() {
    let limits = Limits { window: Duration::from_millis(300), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let row = |number: u32| if number == 3 { [14.0, 0.0] } else { [1.0, 2.0] };
        let server = &server;
        let asking: Vec<_> =
            (0..8).map(|number| scope.spawn(move || server.post(INFER, &rows(&[row(number)])).0)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200, 200, 200, 500, 200, 200, 200, 200]);
}

/// What would have to wait longer than a request may take is refused at once, however long the queue may be.
#[test]
fn nobody_waits_longer_than_a_request_may_take() {
    let limits = Limits { time: Duration::from_secs(3), batch: 1, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let slow = || server.post(INFER, &rows(&[[15.0, 0.0]])).0;
    assert_eq!(slow(), 200); // now it knows the pace: 0.7 s
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..30).map(|_| scope.spawn(slow)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert!(count(200) >= 2 && count(429) >= 20 && count(200) + count(429) + count(503) == 30, "{statuses:?}");
}

/// A long request that was given up does not keep the model from others.
#[test]
fn nobody_computes_for_those_who_left() {
    let limits = Limits { time: Duration::from_secs(1), batch: 1, ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    assert_eq!(server.post(INFER, &rows(&[[15.0, 0.0]; 40])).0, 503); // 28 s of work
    let until = Instant::now() + Duration::from_secs(10);
    while server.post(INFER, &rows(&[[1.0, 2.0]])).0 != 200 {
        assert!(Instant::now() < until, "the model still works for somebody who is gone");
    }
}

/// Nor does one whose inputs fit into a batch, and whose draws do not: 64 rows with 256 draws are as much work as 2,048 rows.
#[test]
fn many_draws_are_given_up_as_well() {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let server = Running::start(limits, Settings::default());
    let mut asked = rows(&[[16.0, 0.0]; 64]);
    asked["parameters"] = serde_json::json!({"draws": 256});
    assert_eq!(server.post(INFER, &asked).0, 503); // 33 s of work
    let until = Instant::now() + Duration::from_secs(10);
    while server.post(INFER, &rows(&[[1.0, 2.0]])).0 != 200 {
        assert!(Instant::now() < until, "the model still works for somebody who is gone");
    }
}

/// What cannot fit into the queue is refused for what it is: 429 would have its sender come again for ever.
#[test]
fn more_than_the_queue_holds_is_no_overload() {
    let server = Running::start(Limits { queue: 4, ..Limits::default() }, Settings::default());
    let five = [[1.0, 2.0]; 5];
    for (path, body) in [(INFER, rows(&five)), ("/predict", serde_json::json!({"rows": five}))] {
        let (status, said) = server.post(path, &body);
        let why = said["error"].as_str().unwrap_or_default();
        assert!(
            status == 400 && why.contains("5 inputs are more than the 4") && why.contains("--queue"),
            "{status} {said}"
        );
    }
    assert_eq!(server.post(INFER, &rows(&five[..4])).0, 200);
}
