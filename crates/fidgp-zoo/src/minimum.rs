//! The least value of a function of one number.

/// Points of the first look.
const LOOKS: usize = 65;
/// Halvings, roughly, of what is left after it.
const STEPS: usize = 60;

/// Where `f` is least between two numbers: looks at evenly spaced points, then closes in on the best of them by the golden
/// section. Exact where f has one valley between the best point's neighbours; an end, where nothing inside is less, is that very
/// number.
pub fn least((low, high): (f64, f64), f: impl Fn(f64) -> f64) -> f64 {
    let step = (high - low) / (LOOKS - 1) as f64;
    let at = |i: usize| low + step * i as f64;
    let best = (0..LOOKS).map(|i| (f(at(i)), i)).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, i)| i);
    let (mut a, mut b) = (at(best.saturating_sub(1)), at((best + 1).min(LOOKS - 1)));
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..STEPS {
        let (c, d) = (b - golden * (b - a), a + golden * (b - a));
        if f(c) < f(d) { b = d } else { a = c }
    }
    let closed_in = f64::midpoint(a, b);
    if f(closed_in) < f(at(best)) { closed_in } else { at(best) }
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn it_finds_the_deepest_valley_and_an_end() {
        assert!((least((-3.0, 5.0), |x| (x - 1.25).powi(2)) - 1.25).abs() < 1e-6);
        let two = |x: f64| (x * x - 4.0).powi(2) + x; // the valley near −2 is deeper
        assert!((least((-5.0, 5.0), two) + 2.03).abs() < 0.01);
        assert!((least((0.25, 1.0), |x| x) - 0.25).abs() < f64::EPSILON);
        assert!((least((0.25, 1.0), |x| -x) - 1.0).abs() < f64::EPSILON);
        assert!((least((0.25, 1.0), |x| if x < 0.5 { 1.0 } else { x + 1.0 }) - 0.25).abs() < f64::EPSILON);
    }
}
