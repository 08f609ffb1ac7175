//! How processes find each other at a store that may still hold what an earlier attempt left there: launchers that restart keep
//! it, or not, and count attempts each machine for itself.
//!
//! Every process says who it is under its rank, with a word that no other process has. Rank 0 reads those of all, gives this
//! meeting a name and says who belongs to it. Whoever finds itself there answers under that name, and rank 0 opens the meeting
//! when all have answered: those of an earlier attempt never do.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::launched::Launched;
use crate::place::{Place, pause, shown, within};

/// Between the words of one process, and between processes.
const BETWEEN: char = '\u{1f}';
const RECORD: char = '\u{1e}';

/// A meeting that all have come to.
#[derive(Debug)]
pub struct Met {
    /// The part of the store that is its own.
    pub place: Arc<Place>,
    /// `host, process 123` of every rank.
    pub names: Vec<String>,
}

/// Waits for all, at most until then.
///
/// # Errors
/// Names the ranks that did not come, or the process that does not answer.
pub fn meet(place: &Arc<Place>, launched: &Launched, timeout: Duration) -> Result<Met, String> {
    let Launched { rank, size, address, port, .. } = launched;
    let own = format!("{}, process {}", crate::machine::host_name(), std::process::id());
    let guest = Guest { place: Arc::clone(place), rank: *rank, size: *size, own: format!("{}{BETWEEN}{own}", word()) };
    let until = Instant::now() + timeout;
    let found = within(timeout + GRACE, move || guest.arrive(until));
    match found {
        Some(Ok(Ok(met))) => Ok(met),
        Some(Ok(Err(missing))) => {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let waited = shown(timeout);
            Err(format!(
                "rank {rank} ({own}) waited {waited} at {address}:{port}: of {size} processes these did not come: rank \
                 {missing}"
            ))
        }
        Some(Err(why)) => Err(format!("rank {rank} of {size}: rank 0 at {address}:{port} is gone: {why}")),
        None => Err(format!(
            "rank {rank} of {size} ({own}): rank 0 at {address}:{port} does not answer within {}",
            shown(timeout)
        )),
    }
}

/// How long a request to the store may take beyond the time of a wait.
const GRACE: Duration = Duration::from_secs(3);

/// What no other process says.
fn word() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}.{:x}", std::process::id(), now.as_nanos())
}

/// A process that comes to a meeting.
struct Guest {
    place: Arc<Place>,
    rank: usize,
    size: usize,
    /// Its word and its name.
    own: String,
}

/// What became of it: a meeting, or the ranks that did not come.
type Found = Result<Met, Vec<usize>>;

impl Guest {
    fn arrive(&self, until: Instant) -> Result<Found, String> {
        self.place.set(&said_by(self.rank), &self.own)?;
        let (mut called, mut answered) = (Vec::new(), String::new());
        loop {
            if self.rank == 0 {
                self.call(&mut called)?;
            }
            let list = self.place.look("meeting")?.unwrap_or_default();
            let mut words = list.split(RECORD);
            let (name, guests) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
            if guests.len() == self.size && guests[self.rank] == self.own {
                if answered != name {
                    self.place.set(&answer(name, self.rank), "")?;
                    name.clone_into(&mut answered);
                }
                if self.is_open(name)? {
                    return Ok(Ok(self.met(name, &guests)?));
                }
            }
            if Instant::now() > until {
                return Ok(Err(self.missing(name)?));
            }
            std::thread::sleep(pause(self.size));
        }
    }

    /// Rank 0 calls a meeting of those who are there, another one whenever a process came in place of one.
    fn call(&self, called: &mut Vec<String>) -> Result<(), String> {
        let all: Vec<_> = (0..self.size).map(said_by).collect();
        if !self.place.has(&all)? {
            return Ok(());
        }
        let found = all.iter().map(|key| Ok(self.place.look(key)?.unwrap_or_default()));
        let found = found.collect::<Result<Vec<_>, String>>()?;
        if found != *called {
            let name = word();
            self.place.set("meeting", &format!("{name}{RECORD}{}", found.join(&RECORD.to_string())))?;
            *called = found;
        }
        Ok(())
    }

    fn is_open(&self, name: &str) -> Result<bool, String> {
        let open = format!("{name}/open");
        if self.rank == 0 && self.place.has(&(0..self.size).map(|rank| answer(name, rank)).collect::<Vec<_>>())? {
            self.place.set(&open, "")?;
        }
        self.place.has(&[open])
    }

    fn met(&self, name: &str, guests: &[&str]) -> Result<Met, String> {
        let name_of = |guest: &&str| guest.split(BETWEEN).next_back().unwrap_or_default().to_owned();
        Ok(Met { place: Arc::new(self.place.room(name)?), names: guests.iter().map(name_of).collect() })
    }

    /// Who did not say a word, or, where all did, who did not answer.
    fn missing(&self, name: &str) -> Result<Vec<usize>, String> {
        let absent = |key: &dyn Fn(usize) -> String| {
            let looked = (0..self.size).map(|rank| Ok((rank, self.place.has(&[key(rank)])?)));
            let looked = looked.collect::<Result<Vec<_>, String>>()?;
            Ok::<_, String>(looked.into_iter().filter(|(_, is_there)| !is_there).map(|(rank, _)| rank).collect())
        };
        let silent: Vec<usize> = absent(&said_by)?;
        if silent.is_empty() { absent(&|rank| answer(name, rank)) } else { Ok(silent) }
    }
}

fn said_by(rank: usize) -> String {
    format!("here/{rank}")
}

fn answer(name: &str, rank: usize) -> String {
    format!("{name}/answer/{rank}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(place: &Arc<Place>, rank: usize, own: &str) -> Guest {
        Guest { place: Arc::clone(place), rank, size: 2, own: format!("{own}{BETWEEN}process {own}") }
    }

    /// The store of an agent outlives the processes: what those of an earlier attempt said is still there.
    #[test]
    fn who_came_to_an_earlier_attempt_is_not_waited_for() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let open = |serves| Arc::new(Place::open(("127.0.0.1", port), serves, Duration::from_secs(20)).unwrap());
        let (_agent, place) = (open(true), open(false));
        let soon = || Instant::now() + Duration::from_millis(100);
        let later = || Instant::now() + Duration::from_secs(20);
        // rank 1 comes and dies; then rank 0 alone finds what it said, and nobody who answers
        assert_eq!(guest(&place, 1, "a").arrive(soon()).unwrap().unwrap_err(), [0]);
        assert_eq!(guest(&place, 0, "b").arrive(soon()).unwrap().unwrap_err(), [1]);
        for (zero, one) in [("c", "d"), ("e", "f")] {
            let (others, one) = (open(false), one.to_owned());
            let other = std::thread::spawn(move || guest(&others, 1, &one).arrive(later()).unwrap().unwrap().names);
            let met = guest(&place, 0, zero).arrive(later()).unwrap().unwrap();
            assert_eq!(met.names, other.join().unwrap());
            assert_eq!(met.names[0], format!("process {zero}"));
            assert_eq!(met.place.look("word").unwrap(), None, "each meeting has a place of its own");
            met.place.set("word", zero).unwrap();
        }
    }
}
