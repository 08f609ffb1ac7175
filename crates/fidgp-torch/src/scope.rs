//! What is begun is ended, however the work between goes.

/// Calls a function once, when asked to or else when it goes out of scope: a panic passes through there, too.
struct Leaving<F: FnOnce() -> R, R>(Option<F>);

impl<F: FnOnce() -> R, R> Drop for Leaving<F, R> {
    fn drop(&mut self) {
        if let Some(leave) = self.0.take() {
            leave(); // during a panic; that is what there is to report
        }
    }
}

/// Enters, does the work, leaves; leaves also where the work panics. What came of leaving stands beside what came of the work.
///
/// # Errors
/// When entering fails; then nothing else is done.
pub fn within<T, E>(
    enter: impl FnOnce() -> Result<(), E>,
    leave: impl FnOnce() -> Result<(), E>,
    work: impl FnOnce() -> T,
) -> Result<(T, Result<(), E>), E> {
    enter()?;
    let mut leaving = Leaving(Some(leave));
    let result = work();
    let left = leaving.0.take().map_or(Ok(()), |leave| leave());
    Ok((result, left))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// A stand-in for the current stream: 0 by default, 1 inside.
    fn on_the_side<T>(stream: &Cell<u8>, work: impl FnOnce() -> T) -> Result<(T, Result<(), String>), String> {
        let set = |value: u8| {
            stream.set(value);
            Ok(())
        };
        within(|| set(1), || set(0), work)
    }

    #[test]
    fn a_panic_leaves_what_was_entered() {
        let stream = Cell::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            on_the_side(&stream, || {
                assert_eq!(stream.get(), 1);
                panic!("in the work");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(stream.get(), 0);
    }

    #[test]
    fn results_and_errors_leave_once() {
        let stream = Cell::new(0);
        assert_eq!(on_the_side(&stream, || stream.get()), Ok((1, Ok(()))));
        assert_eq!(stream.get(), 0);
        let left = Cell::new(0);
        let leave = || {
            left.set(left.get() + 1);
            Err("cannot leave")
        };
        assert_eq!(within(|| Ok(()), leave, || Err::<(), _>("inner")), Ok((Err("inner"), Err("cannot leave"))));
        assert_eq!(left.get(), 1);
        assert_eq!(
            within(|| Err("cannot enter"), leave, || unreachable!("not entered")),
            Err::<((), _), _>("cannot enter")
        );
        assert_eq!(left.get(), 1);
    }
}
