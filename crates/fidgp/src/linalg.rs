//! Cholesky factors of many small matrices at once, with jitter that grows only where it must.

use tch::{Kind, Tensor};

use crate::{Error, Result};

/// The diagonal that is added before factorising: `L = chol(A + ε · mean(diag A) · I)`.
///
/// The mean is detached: jitter is numerics, the gradient must not see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// The first ε that is tried.
    pub relative: f64,
    /// How often ε may grow tenfold before the factorisation is given up.
    pub escalations: u32,
}

impl Jitter {
    /// ε of the released FiD-GP code.
    pub const FIDGP: Self = Self { relative: 1e-5, escalations: 3 };
    /// ε of bayesianize.
    pub const BAYESIANIZE: Self = Self { relative: 1e-4, escalations: 3 };
    /// No jitter at all, for reference values.
    pub const NONE: Self = Self { relative: 0.0, escalations: 0 };
}

/// When to look whether a factorisation succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// At once; failing matrices are tried again with more jitter. Costs a synchronisation on CUDA.
    Now,
    /// Not here: a failure shows as a non-finite loss, and factorising again with [`Check::Now`] names the layer.
    Deferred,
}

/// How the matrices of a network are computed: those of its layers, and those of its draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// In one batch where they are alike: on CUDA, where every operation costs its launch.
    Together,
    /// One after the other: on the CPU, where a batch costs copies and leaves the cache.
    Apart,
}

impl Batching {
    /// What suits the device of a tensor.
    pub fn on_device_of(tensor: Option<&Tensor>) -> Self {
        if tensor.is_some_and(|tensor| tensor.device().is_cuda()) { Self::Together } else { Self::Apart }
    }
}

/// Tensors of one shape along a new leading axis, where they are computed together; apart there is one, as it is.
pub(crate) fn stack(parts: &[&Tensor], batching: Batching) -> Tensor {
    stack_at(0, parts, batching)
}

/// The same for matrices that may have leading axes already: the new one stands right before rows and columns.
pub(crate) fn stack_matrices(parts: &[&Tensor], batching: Batching) -> Tensor {
    stack_at(parts[0].dim() as i64 - 2, parts, batching)
}

fn stack_at(axis: i64, parts: &[&Tensor], batching: Batching) -> Tensor {
    match (parts, batching) {
        ([one], Batching::Apart) => one.shallow_clone(),
        ([one], Batching::Together) => one.unsqueeze(axis), // no copy
        _ => Tensor::stack(parts, axis),
    }
}

/// Matrices of one size and the names they have in messages, such as `layer1.0.conv1.K_row`.
#[derive(Debug)]
pub struct Named {
    /// Layer and matrix of each.
    pub names: Vec<String>,
    /// Symmetric. `[L, n, n]`, or `[n, n]` where there is one name
    pub values: Tensor,
}

impl Named {
    /// A single matrix. `[n, n]`
    pub fn one(name: impl Into<String>, value: &Tensor) -> Self {
        Self { names: vec![name.into()], values: value.shallow_clone() }
    }
}

/// Lower Cholesky factors of jittered matrices.
///
/// # Shapes
/// `[.., n, n]` → `[.., n, n]` for each stack
///
/// # Errors
/// [`Error::Cholesky`] names the matrix that resists every jitter, [`Error::NonFinite`] the one that holds NaN.
pub fn cholesky(stacks: &[Named], jitter: Jitter, check: Check) -> Result<Vec<Tensor>> {
    let batching = Batching::on_device_of(stacks.first().map(|stack| &stack.values));
    cholesky_batched(batching, stacks, jitter, check)
}

fn cholesky_batched(batching: Batching, stacks: &[Named], jitter: Jitter, check: Check) -> Result<Vec<Tensor>> {
    stacks.iter().try_for_each(check_square)?;
    let jittered: Vec<_> = stacks.iter().map(|stack| with_jitter(&stack.values, jitter.relative)).collect();
    in_calls(batching, &jittered.iter().collect::<Vec<_>>(), |joined, members| {
        let (lower, info) = joined.f_linalg_cholesky_ex(false, false)?;
        if check == Check::Deferred {
            // LAPACK leaves a finite part of a factor: that must not pass for one. Divided by 1, or by 0: a constant such as NaN
            // would be copied to the device, which a capture does not allow.
            let sound = info.eq(0).to_kind(lower.kind());
            return Ok(lower / sound.unsqueeze(-1).unsqueeze(-1));
        }
        let failed = failures(&info)?;
        if failed.is_empty() {
            return Ok(lower);
        }
        let matrices = members.iter().flat_map(|&index| {
            let Named { names, values } = &stacks[index];
            names.iter().zip(each(values))
        });
        let mut parts = each(&lower);
        for (slot, (name, matrix)) in matrices.enumerate().filter(|(slot, _)| failed.contains(slot)) {
            let lower = escalate(name, &matrix, jitter)?;
            parts[slot] = pad(&lower, order(joined)).to_kind(joined.kind());
        }
        Ok(Tensor::stack(&parts, 0).view_as(&lower))
    })
}

/// The lower Cholesky factor of one jittered matrix, without history; `make` makes it, again where more jitter is tried.
///
/// # Errors
/// As [`cholesky`].
pub(crate) fn cholesky_of(name: &str, make: &dyn Fn() -> Tensor, jitter: Jitter, check: Check) -> Result<Tensor> {
    let matrix = make();
    let mut diagonal = matrix.diagonal(0, -2, -1);
    let added = diagonal.mean_dim(-1, true, matrix.kind()) * jitter.relative;
    let _ = diagonal.g_add_(&added);
    let (lower, info) = matrix.f_linalg_cholesky_ex(false, false)?;
    if check == Check::Deferred {
        return Ok(lower / info.eq(0).to_kind(matrix.kind())); // by 1, or by 0
    }
    if info.int64_value(&[]) == 0 { Ok(lower) } else { escalate(name, &make(), jitter) }
}

/// Inverses of lower triangular matrices.
///
/// # Shapes
/// `[.., n, n]` → `[.., n, n]` for each stack
pub fn inverse_lower(stacks: &[&Tensor]) -> Result<Vec<Tensor>> {
    inverse_lower_batched(Batching::on_device_of(stacks.first().copied()), stacks)
}

fn inverse_lower_batched(batching: Batching, stacks: &[&Tensor]) -> Result<Vec<Tensor>> {
    in_calls(batching, stacks, |joined, _| {
        let eye = Tensor::eye(order(joined), (joined.kind(), joined.device()));
        Ok(solve_lower(joined, &eye.expand_as(joined)))
    })
}

/// n of matrices `[.., n, n]`.
fn order(matrices: &Tensor) -> i64 {
    matrices.size()[matrices.dim() - 1]
}

/// The matrices of a stack. `[.., n, n]` → `[n, n]` each
fn each(stack: &Tensor) -> Vec<Tensor> {
    stack.reshape([-1, order(stack), order(stack)]).unbind(0)
}

/// Lets `work` see the stacks one by one, or all of them in a single call: there they are in f64, and smaller matrices are
/// filled up with the identity, which changes nothing. On CUDA a call takes about as long for a hundred matrices as for one.
/// `work` is told which are in a call.
fn in_calls(
    batching: Batching,
    stacks: &[&Tensor],
    work: impl Fn(&Tensor, &[usize]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    if batching == Batching::Apart || stacks.is_empty() {
        return stacks.iter().enumerate().map(|(index, stack)| work(stack, &[index])).collect();
    }
    let largest = stacks.iter().map(|stack| order(stack)).max().unwrap_or(0);
    let fill = |stack: &&Tensor| {
        let filled = pad(stack, largest).to_kind(Kind::Double);
        filled.reshape([-1, largest, largest])
    };
    let filled: Vec<_> = stacks.iter().map(fill).collect();
    let counts: Vec<_> = filled.iter().map(|stack| stack.size()[0]).collect();
    let result = work(&Tensor::f_cat(&filled, 0)?, &(0..stacks.len()).collect::<Vec<_>>())?;
    // one split, and no narrowing where nothing was filled up: a slice's gradient is a whole stack of zeros around it
    let own = |(part, stack): (Tensor, &&Tensor)| {
        let n = order(stack);
        let own = if n == largest { part } else { part.narrow(1, 0, n).narrow(2, 0, n) };
        own.reshape_as(stack).to_kind(stack.kind())
    };
    Ok(result.f_split_with_sizes(counts, 0)?.into_iter().zip(stacks).map(own).collect())
}

/// Fills matrices up with the identity. `[.., n, n]` → `[.., size, size]`
fn pad(matrices: &Tensor, size: i64) -> Tensor {
    let n = order(matrices);
    if n == size {
        return matrices.shallow_clone();
    }
    let identity = Tensor::eye(size, (matrices.kind(), matrices.device()));
    let _ = identity.narrow(0, 0, n).zero_();
    matrices.constant_pad_nd([0, size - n, 0, size - n]) + identity
}

/// `A + ε · mean(diag A) · I`, the mean detached. `[.., n, n]`
fn with_jitter(a: &Tensor, relative: f64) -> Tensor {
    let mean = a.detach().diagonal(0, -2, -1).mean_dim(-1, true, a.kind()) * relative;
    a + mean.expand_as(&a.diagonal(0, -2, -1)).diag_embed(0, -2, -1)
}

fn check_square(stack: &Named) -> Result<()> {
    let size = stack.values.size();
    let count = match size[..] {
        [n, m] if n == m && n > 0 => 1,
        [count, n, m] if n == m && n > 0 => count as usize,
        _ => usize::MAX,
    };
    if count == stack.names.len() {
        return Ok(());
    }
    Err(Error::shape(stack.names.join(", "), &size, "square matrices [L, n, n] with n ≥ 1, L of them named"))
}

fn failures(info: &Tensor) -> Result<Vec<usize>> {
    let info = Vec::<i64>::try_from(info.to_kind(Kind::Int64).reshape([-1]))?;
    Ok(info.iter().enumerate().filter(|(_, code)| **code != 0).map(|(slot, _)| slot).collect())
}

/// Tries one matrix again with ten, a hundred, … times the jitter.
fn escalate(name: &str, matrix: &Tensor, jitter: Jitter) -> Result<Tensor> {
    check_finite(name, matrix, "Lower the learning rate or clip gradients")?;
    let start = jitter.relative.max(f64::EPSILON);
    let mut tried = vec![jitter.relative];
    let mut minor = 0;
    for power in 1..=jitter.escalations {
        let relative = start * 10f64.powi(power as i32);
        let (lower, info) = with_jitter(matrix, relative).f_linalg_cholesky_ex(false, false)?;
        minor = info.int64_value(&[]);
        tried.push(relative);
        if minor == 0 {
            tracing::warn!(matrix = name, jitter = relative, "Cholesky needed more jitter");
            return Ok(lower);
        }
    }
    if minor == 0 {
        minor = with_jitter(matrix, jitter.relative).f_linalg_cholesky_ex(false, false)?.1.int64_value(&[]);
    }
    Err(Error::Cholesky { layer: name.to_owned(), minor, size: matrix.size()[0], tried, condition: condition(matrix) })
}

/// Ratio of the largest to the smallest absolute eigenvalue.
fn condition(a: &Tensor) -> f64 {
    let eigenvalues = a.detach().to_kind(Kind::Double).linalg_eigvalsh("L").abs();
    eigenvalues.max().double_value(&[]) / eigenvalues.min().double_value(&[])
}

/// Fails when a tensor holds NaN or infinity.
pub fn check_finite(what: &str, tensor: &Tensor, advice: &'static str) -> Result<()> {
    let count = tensor.isfinite().logical_not().sum(Kind::Int64).int64_value(&[]);
    if count == 0 {
        return Ok(());
    }
    Err(Error::NonFinite { what: what.to_owned(), count, total: tensor.numel() as i64, advice })
}

/// `L⁻¹ B` for a lower triangular L. `[.., n, n]`, `[.., n, k]` → `[.., n, k]`
pub fn solve_lower(l: &Tensor, b: &Tensor) -> Tensor {
    l.linalg_solve_triangular(b, false, true, false)
}

/// `ln det L` of a triangular factor: the sum of the logarithms of its diagonal. `[.., n, n]` → `[..]`
pub fn log_det_lower(l: &Tensor) -> Tensor {
    l.diagonal(0, -2, -1).log().sum_dim_intlist(-1, false, l.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use tch::Device;

    fn spd(n: i64, seed: u64) -> Tensor {
        let a = Key::new(seed).normal(&[n, n], Kind::Double, Device::Cpu);
        a.matmul(&a.tr()) + Tensor::eye(n, (Kind::Double, Device::Cpu))
    }

    #[test]
    fn stacks_of_many_sizes_come_back_in_order() {
        let stacks: Vec<_> = [(3, 1), (2, 2), (3, 2), (5, 1)]
            .iter()
            .map(|&(n, count)| Named {
                names: vec!["m".to_owned(); count],
                values: Tensor::stack(&(0..count).map(|i| spd(n, i as u64)).collect::<Vec<_>>(), 0),
            })
            .collect();
        let factors = cholesky(&stacks, Jitter::NONE, Check::Now).unwrap();
        for (stack, l) in stacks.iter().zip(&factors) {
            assert!((l.matmul(&l.mt()) - &stack.values).abs().max().double_value(&[]) < 1e-12);
            let inverse = inverse_lower(&[l]).unwrap().remove(0);
            let eye = Tensor::eye(l.size()[1], (Kind::Double, Device::Cpu));
            assert!((l.matmul(&inverse) - eye).abs().max().double_value(&[]) < 1e-12);
        }
    }

    #[test]
    fn a_singular_matrix_gets_more_jitter_and_the_others_stay_exact() {
        let good = spd(2, 0);
        let singular =
            Tensor::ones([2, 2], (Kind::Double, Device::Cpu)) - Tensor::eye(2, (Kind::Double, Device::Cpu)) * 1e-4;
        let factors =
            cholesky(&[Named::one("good", &good), Named::one("bad", &singular)], Jitter::FIDGP, Check::Now).unwrap();
        let back = factors[0].matmul(&factors[0].mt());
        assert!((back - with_jitter(&good, 1e-5)).abs().max().double_value(&[]) < 1e-12);
        assert_eq!(factors[1].isfinite().all().int64_value(&[]), 1);
    }

    /// Where nobody looks, what is left of a failed factor must not pass for one.
    #[test]
    fn a_failure_that_is_not_looked_at_is_not_finite() {
        let (good, bad) = (spd(3, 0), Tensor::ones([3, 3], (Kind::Double, Device::Cpu)));
        let stacks = [Named { names: vec!["a".to_owned(), "b".to_owned()], values: Tensor::stack(&[&good, &bad], 0) }];
        let factors = &cholesky(&stacks, Jitter::NONE, Check::Deferred).unwrap()[0];
        assert!((factors.get(0).matmul(&factors.get(0).tr()) - good).abs().max().double_value(&[]) < 1e-12);
        assert_eq!(factors.get(1).isfinite().any().int64_value(&[]), 0);
    }

    /// The calls that CUDA makes, here on a CPU: the same factors, inverses and gradients.
    #[test]
    fn one_call_for_all_is_the_same_as_one_for_each() {
        let sizes = [(3, 1), (2, 2), (3, 2), (5, 1), (4, 0)]; // none: a matrix without a leading axis
        let computed = |batching: Batching| {
            let leaf = |(place, &(n, count)): (usize, &(i64, u64))| {
                let matrices: Vec<_> = (0..count.max(1)).map(|i| spd(n, 10 * place as u64 + i)).collect();
                let stack = if count == 0 { matrices[0].shallow_clone() } else { Tensor::stack(&matrices, 0) };
                stack.set_requires_grad(true)
            };
            let leaves: Vec<_> = sizes.iter().enumerate().map(leaf).collect();
            let named =
                |leaf: &Tensor| Named { names: vec!["m".to_owned(); each(leaf).len()], values: leaf.shallow_clone() };
            let stacks: Vec<_> = leaves.iter().map(named).collect();
            let lower = cholesky_batched(batching, &stacks, Jitter::FIDGP, Check::Now).unwrap();
            let inverse = inverse_lower_batched(batching, &lower.iter().collect::<Vec<_>>()).unwrap();
            // the second factor is left out of the loss: its gradient comes by its inverse alone
            let weighed = |(place, tensor): (usize, &Tensor)| {
                let weights = Key::new(7).at(place as u64).normal(&tensor.size(), Kind::Double, Device::Cpu);
                (tensor * weights).sum(Kind::Double)
            };
            let used = lower.iter().enumerate().filter(|(place, _)| *place != 1);
            let loss: Tensor = used.map(weighed).chain(inverse.iter().enumerate().map(weighed)).sum();
            loss.backward();
            let found = lower.iter().chain(&inverse).map(Tensor::detach);
            found.chain(leaves.iter().map(Tensor::grad)).collect::<Vec<_>>()
        };
        for (one, apart) in computed(Batching::Together).iter().zip(computed(Batching::Apart)) {
            assert_eq!(one.size(), apart.size());
            assert!((one - apart).abs().max().double_value(&[]) < 1e-12);
        }
    }

    #[test]
    fn an_indefinite_matrix_is_named_with_minor_and_condition() {
        let a = Tensor::from_slice(&[1.0, 0.0, 0.0, -1.0]).reshape([2, 2]);
        let error = cholesky(&[Named::one("fc.K_row", &a)], Jitter::FIDGP, Check::Now).unwrap_err().to_string();
        assert!(
            error.contains("fc.K_row") && error.contains("minor 2 of 2") && error.contains("condition estimate 1.0e0"),
            "{error}"
        );
    }

    #[test]
    fn nan_is_reported_as_nan() {
        let a = Tensor::from_slice(&[f64::NAN, 0.0, 0.0, 1.0]).reshape([2, 2]);
        let error = cholesky(&[Named::one("fc.K_col", &a)], Jitter::FIDGP, Check::Now).unwrap_err();
        assert!(matches!(error, Error::NonFinite { count: 1, .. }), "{error}");
    }

    #[test]
    fn the_gradient_does_not_see_the_jitter() {
        // d trace(L Lᵀ)/dA = I exactly when mean(diag) is detached; otherwise the diagonal would hold 1 + ε.
        let a = spd(3, 9).set_requires_grad(true);
        let l =
            cholesky(&[Named::one("a", &a)], Jitter { relative: 0.5, escalations: 0 }, Check::Now).unwrap().remove(0);
        l.matmul(&l.tr()).trace().backward();
        assert!((a.grad() - Tensor::eye(3, (Kind::Double, Device::Cpu))).abs().max().double_value(&[]) < 1e-12);
    }

    #[test]
    fn solves_invert_the_factor() {
        let l = spd(4, 2).linalg_cholesky(false);
        let b = Key::new(8).normal(&[4, 3], Kind::Double, Device::Cpu);
        assert!((l.matmul(&solve_lower(&l, &b)) - &b).abs().max().double_value(&[]) < 1e-12);
    }
}
