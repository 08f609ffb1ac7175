use serde::Serialize;

/// One control and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// What was done.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// The worst that was measured.
    pub measured: f64,
    /// What would have been allowed.
    pub bound: f64,
    /// The score that was worst.
    pub worst_score: String,
    /// The images it was done with.
    pub images: usize,
    /// What is likely wrong where it failed.
    pub cause: String,
}

impl std::fmt::Display for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { name, measured, bound, worst_score, images, cause, .. } = self;
        let verdict = if self.passed { "held" } else { "FAILED" };
        write!(
            f,
            "{name}: {verdict} ({measured:.3e}, at most {bound:.0e} allowed; worst is {worst_score}, {images} images)"
        )?;
        if self.passed { Ok(()) } else { write!(f, "; likely cause: {cause}") }
    }
}
