//! Turns at the processor: so many models compute at the same time as the machine bears, first come, first served.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of places, given out in the order of asking.
#[derive(Debug)]
pub struct Turns {
    queue: Mutex<Tickets>,
    moved: Condvar,
    places: u64,
}

#[derive(Debug, Default)]
struct Tickets {
    given: u64,
    /// Those that are done.
    back: u64,
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many places, at least one.
    pub fn new(places: usize) -> Self {
        Self { queue: Mutex::default(), moved: Condvar::new(), places: places.max(1) as u64 }
    }

    /// Waits for a place.
    pub fn take(&self) -> Turn<'_> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = queue.given;
        queue.given += 1;
        while mine >= queue.back + self.places {
            queue = self.moved.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).back += 1;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_than_the_places_are_taken_and_all_come_to_their_turn() {
        for places in [1, 3] {
            let (turns, now, most) = (Turns::new(places), AtomicUsize::new(0), AtomicUsize::new(0));
            let work = || {
                for _ in 0..20 {
                    let _turn = turns.take();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(200));
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            };
            thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(work))));
            assert_eq!(now.into_inner(), 0);
            assert!((1..=places).contains(&most.into_inner()), "more than {places} at once");
        }
    }

    #[test]
    fn a_panic_gives_the_place_back() {
        let turns = Turns::new(1);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = turns.take();
            panic!("a model fails");
        }));
        assert!(failed.is_err());
        drop(turns.take());
    }
}
