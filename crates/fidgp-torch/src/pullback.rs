//! Values whose gradients are computed by a function of one's own, written by hand.

use tch::Tensor;

/// Makes outputs that were computed without history depend on inputs: a backward pass hands `pullback` the gradients of the
/// outputs, in their order, and takes those of the inputs, in theirs. It has no second derivative: a pass that asks for one
/// fails. Changes nothing where no input wants a gradient, or gradients are off.
///
/// `pullback` must not hold the outputs themselves, which hold it: a detached copy costs nothing. What it holds must stay as it is
/// until the backward pass: nobody counts versions here. Where it panics, the backward pass fails.
///
/// # Errors
/// With libtorch's words, where an output has history or is not of a floating type.
#[cfg(target_os = "linux")]
pub fn attach(
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    pullback: impl Fn(&[Option<Tensor>]) -> Vec<Option<Tensor>> + Send + 'static,
) -> Result<(), String> {
    linux::attach(inputs, outputs, Box::new(pullback))
}

/// Whether [`attach`] works here.
pub const CAN_ATTACH: bool = cfg!(target_os = "linux");

/// Elsewhere there is none: ask [`CAN_ATTACH`] first.
#[cfg(not(target_os = "linux"))]
pub fn attach(
    _: &[&Tensor],
    _: &[&Tensor],
    _: impl Fn(&[Option<Tensor>]) -> Vec<Option<Tensor>> + Send + 'static,
) -> Result<(), String> {
    Err("pullbacks that are written by hand need Linux".to_owned())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_char, c_int, c_void};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use tch::Tensor;

    use crate::place::guarded;

    /// Gradients of the outputs, none where there is none, to gradients of the inputs.
    type Pullback = Box<dyn Fn(&[Option<Tensor>]) -> Vec<Option<Tensor>> + Send>;
    type Raw = *mut c_void;

    #[expect(unsafe_code, reason = "the C face in pullback.cpp; failures are reported in `message`")]
    unsafe extern "C" {
        fn fidgp_pullback(
            inputs: *const Raw,
            input_count: usize,
            outputs: *const Raw,
            output_count: usize,
            closure: Raw,
            call: extern "C" fn(Raw, *const Raw, usize, *mut Raw, usize) -> c_int,
            drop: extern "C" fn(Raw),
            message: *mut c_char,
            size: usize,
        ) -> c_int;
    }

    pub fn attach(inputs: &[&Tensor], outputs: &[&Tensor], pullback: Pullback) -> Result<(), String> {
        let raw =
            |tensors: &[&Tensor]| tensors.iter().map(|tensor| tensor.as_ptr().cast_mut().cast()).collect::<Vec<Raw>>();
        let (inputs, outputs) = (raw(inputs), raw(outputs));
        let closure: Raw = Box::into_raw(Box::new(pullback)).cast();
        // SAFETY: both arrays are of tensors that live during the call; the closure is the node's, which drops it once.
        #[expect(unsafe_code, reason = "a call of the C face")]
        guarded(|message, size| unsafe {
            fidgp_pullback(
                inputs.as_ptr(),
                inputs.len(),
                outputs.as_ptr(),
                outputs.len(),
                closure,
                call,
                drop_closure,
                message,
                size,
            )
        })
    }

    #[expect(unsafe_code, reason = "called by the C face with what it was given")]
    extern "C" fn call(
        closure: Raw,
        upstream: *const Raw,
        outputs: usize,
        downstream: *mut Raw,
        inputs: usize,
    ) -> c_int {
        // SAFETY: the node calls with its own closure, which it has not dropped, and with arrays of these lengths; what is
        // not null upstream is a tensor that lives during the call.
        let (pullback, given, found) = unsafe {
            let given = std::slice::from_raw_parts(upstream, outputs);
            (&*closure.cast::<Pullback>(), given, std::slice::from_raw_parts_mut(downstream, inputs))
        };
        let computed = catch_unwind(AssertUnwindSafe(|| {
            let share = |&raw: &Raw| {
                // SAFETY: as above; a clone counts for itself.
                (!raw.is_null()).then(|| unsafe { Tensor::clone_from_ptr(raw.cast()) })
            };
            pullback(&given.iter().map(share).collect::<Vec<_>>())
        }));
        let Ok(gradients) = computed else { return 1 };
        if gradients.len() != found.len() {
            return 1;
        }
        for (place, gradient) in found.iter_mut().zip(gradients) {
            if let Some(mut gradient) = gradient {
                *place = gradient.as_mut_ptr().cast();
                std::mem::forget(gradient); // the node deletes it
            }
        }
        0
    }

    #[expect(unsafe_code, reason = "called by the C face with what it was given")]
    extern "C" fn drop_closure(closure: Raw) {
        // SAFETY: the node calls this once, with what `Box::into_raw` gave.
        let owned = unsafe { Box::from_raw(closure.cast::<Pullback>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tch::{Device, Kind, Tensor};

    use super::attach;

    fn leaf(value: f64) -> Tensor {
        Tensor::from_slice(&[value]).set_requires_grad(true)
    }

    /// `a·b` and `a + b`, the second of which may stay unused.
    fn product_and_sum(a: &Tensor, b: &Tensor, alive: &Arc<AtomicUsize>) -> [Tensor; 2] {
        let (x, y, alive) = (a.detach(), b.detach(), Alive::new(alive));
        let outputs = [&x * &y, &x + &y];
        let pullback = move |upstream: &[Option<Tensor>]| {
            let _ = &alive;
            let [product, sum] = [&upstream[0], &upstream[1]];
            let of = |other: &Tensor| {
                let own = product.as_ref().map(|product| product * other);
                match (own, sum) {
                    (Some(own), Some(sum)) => Some(own + sum),
                    (own, sum) => own.or_else(|| sum.as_ref().map(Tensor::shallow_clone)),
                }
            };
            vec![of(&y), of(&x)]
        };
        attach(&[a, b], &[&outputs[0], &outputs[1]], pullback).unwrap();
        outputs
    }

    struct Alive(Arc<AtomicUsize>);

    impl Alive {
        fn new(count: &Arc<AtomicUsize>) -> Self {
            count.fetch_add(1, Ordering::Relaxed);
            Self(count.clone())
        }
    }

    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn gradients_are_those_of_the_function_and_nothing_stays() {
        let alive = Arc::new(AtomicUsize::new(0));
        let (a, b) = (leaf(2.0), leaf(3.0));
        let [product, sum] = product_and_sum(&a, &b, &alive);
        (product.square() + sum * 10.0).sum(Kind::Double).backward();
        // d/da (ab)² + 10(a + b) = 2ab·b + 10
        assert_eq!((a.grad().double_value(&[0]), b.grad().double_value(&[0])), (46.0, 34.0));
        assert_eq!(alive.load(Ordering::Relaxed), 0, "freed with the graph");
        let [product, _unused] = product_and_sum(&a, &b, &alive);
        let kept = |keep| Tensor::f_run_backward(&[&product], &[&a], keep, false).map(|own| own[0].double_value(&[0]));
        assert_eq!((kept(true).unwrap(), kept(false).unwrap()), (3.0, 3.0));
        assert!(kept(false).is_err(), "the graph is freed");
        let [product, _] = product_and_sum(&a, &b, &alive);
        assert!(Tensor::f_run_backward(&[&product], &[&a], true, true).is_err(), "no second derivative");
        drop(product);
        let [product, _] = tch::no_grad(|| product_and_sum(&a, &b, &alive));
        assert!(!product.requires_grad());
        assert!(!product_and_sum(&a.detach(), &b.detach(), &alive)[0].requires_grad());
        drop(product_and_sum(&a, &b, &alive));
        assert_eq!(alive.load(Ordering::Relaxed), 0, "never called");
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let a = leaf(2.0);
        let whole = Tensor::zeros([1], (Kind::Int64, Device::Cpu));
        assert!(attach(&[&a], &[&whole], |_| Vec::new()).is_err());
        let one = a.detach() * 2.0;
        attach(&[&a], &[&one], |_| Vec::new()).unwrap(); // none for one input
        assert!(Tensor::f_run_backward(&[&one], &[&a], false, false).is_err());
        let other = a.detach() * 2.0;
        attach(&[&a], &[&other], |_| panic!("in a pullback")).unwrap();
        assert!(Tensor::f_run_backward(&[&other], &[&a], false, false).is_err());
    }
}
