//! Signs of life: every process writes, again and again, that it lives, so that the others can tell one that is gone from one that
//! has not come yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::place::{Place, pause, within};

/// Time between two signs.
const EVERY: Duration = Duration::from_millis(300);

/// How long the others get to show that they live, and to say why they ended.
pub const GRACE: Duration = Duration::from_secs(3);

/// Where the first process that fails writes why.
pub const ENDED: &str = "ended";

/// What is found out of the others.
#[derive(Debug)]
pub enum Silent {
    /// One said why it ended.
    Said(String),
    /// These give no sign of life.
    Dead(Vec<usize>),
    /// All live, and these compute something else.
    Busy(Vec<usize>),
    /// All live and wait.
    Nobody,
}

/// Where a process says that it waits no longer.
pub fn left(rank: usize) -> String {
    format!("left/{rank}")
}

/// Where it says that it needs nothing more of the store.
pub fn done(rank: usize) -> String {
    format!("done/{rank}")
}

/// Where its signs of life stand.
fn sign(rank: usize) -> String {
    format!("alive/{rank}")
}

/// Gives signs of life until told to stop: a count, and whether this process waits for others.
pub fn show(place: Arc<Place>, rank: usize, stop: Arc<AtomicBool>, waits: impl Fn() -> bool + Send + 'static) {
    let work = move || {
        for count in 0_u64.. {
            let what = if waits() { "waits" } else { "computes" };
            if stop.load(Ordering::Relaxed) || place.set(&sign(rank), &format!("{count} {what}")).is_err() {
                return;
            }
            std::thread::sleep(EVERY);
        }
    };
    // where no thread can be had, this process counts as silent once somebody is missing
    _ = std::thread::Builder::new().name("fidgp-alive".to_owned()).spawn(work);
}

/// Looks who does not come to say that they wait no longer either.
///
/// # Errors
/// When the store is gone.
pub fn silent(place: &Place, rank: usize, size: usize) -> Result<Silent, String> {
    place.set(&left(rank), "")?;
    let until = Instant::now() + GRACE;
    let at_first = signs(place, 0..size)?;
    loop {
        if let Some(why) = place.look(ENDED)? {
            return Ok(Silent::Said(why));
        }
        let mut missing = Vec::new();
        for other in 0..size {
            if !place.has(&[left(other)])? {
                missing.push(other);
            }
        }
        if missing.is_empty() {
            return Ok(Silent::Nobody);
        }
        if Instant::now() > until {
            let now = signs(place, missing.iter().copied())?;
            let is_dead = |(other, sign): &(usize, Option<String>)| at_first[*other].1 == *sign;
            let dead: Vec<usize> = now.iter().filter(|found| is_dead(found)).map(|(other, _)| *other).collect();
            if !dead.is_empty() {
                return Ok(Silent::Dead(dead));
            }
            let computes = |sign: &Option<String>| sign.as_ref().is_some_and(|sign| sign.ends_with("computes"));
            let busy: Vec<usize> = now.iter().filter(|(_, sign)| computes(sign)).map(|(other, _)| *other).collect();
            return Ok(if busy.is_empty() { Silent::Nobody } else { Silent::Busy(busy) });
        }
        std::thread::sleep(pause(size));
    }
}

/// Keeps the store open until these need it no longer, or give no sign of life, at most so long.
pub fn wait_for_goodbyes(place: &Place, ranks: impl Iterator<Item = usize>, most: Duration) {
    let mut others: Vec<_> = ranks.map(|rank| (rank, None, Instant::now())).collect();
    let until = Instant::now() + most;
    while !others.is_empty() && Instant::now() < until {
        others.retain_mut(|(rank, last, since)| {
            let Ok(now) = place.look(&sign(*rank)) else { return false };
            if now != *last {
                (*last, *since) = (now, Instant::now());
            }
            since.elapsed() < 2 * GRACE && matches!(place.has(&[done(*rank)]), Ok(false))
        });
        std::thread::sleep(pause(others.len()));
    }
}

fn signs(place: &Place, ranks: impl Iterator<Item = usize>) -> Result<Vec<(usize, Option<String>)>, String> {
    ranks.map(|rank| Ok((rank, place.look(&sign(rank))?))).collect()
}

/// Watches the process of the next rank, and what any process says of its end, from a thread of its own: calls that only queue work
/// for a GPU never come back to notice. When one is gone the others are told, and `lost` is called with why.
pub fn watch(
    place: Arc<Place>,
    (own, next, name): (usize, usize, String),
    (limit, stop): (Duration, Arc<AtomicBool>),
    lost: impl FnOnce(String) + Send + 'static,
) {
    let work = move || {
        let (mut last, mut since) = (None, Instant::now());
        loop {
            std::thread::sleep(EVERY);
            let asked = Arc::clone(&place);
            let found = within(limit, move || look(&asked, next));
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match found {
                Some(Ok(Next::Left)) => since = Instant::now(), // what others say of their end still counts
                Some(Ok(Next::Ended(why))) => return lost(why),
                Some(Ok(Next::Sign(sign))) if sign != last => (last, since) = (sign, Instant::now()),
                Some(Ok(Next::Sign(_))) if since.elapsed() < limit => {}
                Some(Ok(Next::Sign(_))) => {
                    let why = format!("{name} died or does not answer");
                    let told = why.clone();
                    _ = within(limit, move || place.set(ENDED, &told).and_then(|()| place.set(&left(own), "")));
                    return lost(why);
                }
                Some(Err(_)) | None => return lost("the process that keeps the store is gone".to_owned()),
            }
        }
    };
    _ = std::thread::Builder::new().name("fidgp-watch".to_owned()).spawn(work);
}

/// How the next process is.
enum Next {
    Ended(String),
    Left,
    Sign(Option<String>),
}

fn look(place: &Place, next: usize) -> Result<Next, String> {
    if let Some(why) = place.look(ENDED)? {
        return Ok(Next::Ended(why));
    }
    if place.has(&[left(next)])? {
        return Ok(Next::Left);
    }
    Ok(Next::Sign(place.look(&sign(next))?))
}
