//! How much a file may ask for. A reader checks here before it asks for memory; every limit can be raised.
//!
//! ```
//! use fidgp_files::limits;
//! let error = limits::PIXELS.check_product(&[50_000, 50_000]).unwrap_err();
//! assert!(error.to_string().contains("FIDGP_LIMIT_PIXELS"));
//! ```

use std::fmt;

/// A bound on one quantity of an input.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit {
    /// The environment variable that replaces the bound.
    pub variable: &'static str,
    /// The bound where the variable is not set.
    pub default: u64,
    /// What is bounded, as it follows a number: "pixels of one picture or mask".
    pub of: &'static str,
    /// The way out, for a message.
    pub advice: &'static str,
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident = $default:expr, $of:literal;)+) => {
        $($(#[doc = $doc])+
        pub const $name: Limit = Limit {
            variable: concat!("FIDGP_LIMIT_", stringify!($name)),
            default: $default,
            of: $of,
            advice: concat!("make it smaller or, if you trust it, set FIDGP_LIMIT_", stringify!($name), " higher"),
        };)+

        /// Every limit, in the order of `docs/limits.md`.
        pub const ALL: &[&Limit] = &[$(&$name),+];
    };
}

limits! {
    /// A file that is read into memory as a whole.
    FILE_BYTES = 32 << 30, "bytes of one file";
    /// A config, a record or a header.
    TEXT_BYTES = 256 << 20, "bytes of one text or JSON file";
    /// What a compressed file may become.
    INFLATED_BYTES = 8 << 30, "inflated bytes of one file";
    /// Looked at where more than [`FREE_BYTES`] come out.
    INFLATED_RATIO = 200, "inflated bytes for each compressed one";
    /// Width × height, before a decoder is asked.
    PIXELS = (512 << 20) / 3, "pixels of one picture or mask";
    /// Looked at where there are more than [`FREE_PIXELS`].
    PIXELS_PER_BYTE = 10_000, "pixels for each byte of a picture's file";
    /// Rows of a table, images of a set, points of a formula.
    ROWS = 100_000_000, "rows of one data set";
    /// Of a table.
    COLUMNS = 1_000_000, "columns of one table";
    /// Of labels and of networks.
    CLASSES = 1_000_000, "classes";
    /// Folders in folders.
    FOLDERS = 16, "folders inside one another";
    /// Of a PyTorch file: lists, numbers, texts and references.
    VALUES = 20_000_000, "values in one pickle";
    /// Tensors of a PyTorch file may repeat the numbers they are made of.
    REPEATED_BYTES = 256 << 20, "bytes of tensors beyond those of their file";
    /// Of a network.
    LAYERS = 10_000, "layers of one network";
    /// Features, hidden units, channels, a batch: any one size in a config.
    SIZE = 100_000, "in one size of a network";
    /// Of an ONNX file, with those of its functions wherever they are called.
    NODES = 200_000, "nodes of one graph";
    /// Of what a node of an ONNX file makes, before it is made.
    ELEMENTS = 1 << 30, "elements of one value of a graph";
    /// Of a network, before it is built.
    PARAMETERS = 4_000_000_000, "parameters of one network";
}

/// Inflated bytes that come without a question about their ratio.
pub const FREE_BYTES: u64 = 64 << 20;
/// Pixels that come without a question about their ratio.
pub const FREE_PIXELS: u64 = 1 << 24;

impl Limit {
    /// The bound in force: the variable's number (`2e9` and `2_000_000_000` alike, `none` for no bound), else the default.
    pub fn most(&self) -> u64 {
        std::env::var(self.variable).ok().and_then(|text| parsed(&text)).unwrap_or(self.default)
    }

    /// Refuses what is beyond the bound.
    ///
    /// # Errors
    /// [`Exceeded`], whose message names the bound and how to raise it.
    pub fn check(&'static self, wanted: u64) -> Result<(), Exceeded> {
        let most = self.most();
        if wanted <= most { Ok(()) } else { Err(Exceeded { limit: self, wanted: Some(wanted), most }) }
    }

    /// [`check`](Self::check) of a product, which may be larger than any number.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_product(&'static self, sizes: &[u64]) -> Result<u64, Exceeded> {
        match sizes.iter().try_fold(1_u64, |all, &size| all.checked_mul(size)) {
            Some(product) => self.check(product).map(|()| product),
            None => Err(Exceeded { limit: self, wanted: None, most: self.most() }),
        }
    }
}

/// Refuses what comes out of fewer bytes than it can have been put into.
///
/// # Errors
/// As [`Limit::check`], where there is more than `free` and more than `limit` for each of `bytes`.
pub fn check_ratio(limit: &'static Limit, free: u64, wanted: u64, bytes: u64) -> Result<(), Exceeded> {
    if wanted <= free { Ok(()) } else { limit.check(wanted.div_ceil(bytes.max(1))) }
}

/// Refuses pictures that are too large, or too large for their file.
///
/// # Errors
/// As [`Limit::check`].
pub fn check_pixels(width: u32, height: u32, file_bytes: usize) -> Result<(), Exceeded> {
    let pixels = PIXELS.check_product(&[width.into(), height.into()])?;
    check_ratio(&PIXELS_PER_BYTE, FREE_PIXELS, pixels, file_bytes as u64)
}

/// The first variable whose value is no bound: what a program asks when it starts.
///
/// # Errors
/// Says which variable, what it holds and what it takes.
pub fn check_environment() -> Result<(), String> {
    let unsound = |limit: &&&Limit| {
        std::env::var_os(limit.variable).is_some_and(|value| value.to_str().and_then(parsed).is_none())
    };
    match ALL.iter().find(unsound) {
        Some(limit) => Err(format!(
            "{} = `{}` is no bound: give a whole number, such as {}, or `none`",
            limit.variable,
            crate::shown(std::env::var_os(limit.variable).unwrap_or_default().display()),
            limit.default
        )),
        None => Ok(()),
    }
}

fn parsed(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    if text == "none" {
        return Some(u64::MAX);
    }
    let rounded = || text.parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
    text.parse().ok().or_else(|| rounded().map(|number| number as u64))
}

/// More than a limit allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Which limit.
    pub limit: &'static Limit,
    /// What was asked for; nothing where it is more than any number.
    pub wanted: Option<u64>,
    /// The bound in force.
    pub most: u64,
}

impl Exceeded {
    /// The message without the way out, which is [`Limit::advice`].
    pub fn problem(&self) -> String {
        let wanted = self.wanted.map_or_else(|| "more than 2⁶⁴".to_owned(), |wanted| wanted.to_string());
        format!("{wanted} {}, the limit is {}", self.limit.of, self.most)
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.problem(), self.limit.advice)
    }
}

impl std::error::Error for Exceeded {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_people_write_them() {
        assert_eq!(parsed("2e9"), Some(2_000_000_000));
        assert_eq!(parsed(" 2_000 "), Some(2000));
        assert_eq!(parsed("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parsed("none"), Some(u64::MAX));
        for unsound in ["", "many", "-1", "inf", "NaN"] {
            assert_eq!(parsed(unsound), None, "{unsound}");
        }
    }

    #[test]
    fn what_is_beyond_every_number_is_beyond_the_limit() {
        assert!(SIZE.check(SIZE.default).is_ok());
        assert!(SIZE.check(SIZE.default + 1).is_err());
        let error = PIXELS.check_product(&[u64::MAX, 2]).unwrap_err();
        assert!(error.to_string().starts_with("more than 2⁶⁴ pixels"), "{error}");
    }

    #[test]
    fn a_ratio_counts_beyond_what_is_free() {
        assert!(check_ratio(&INFLATED_RATIO, FREE_BYTES, FREE_BYTES, 1).is_ok());
        assert!(check_ratio(&INFLATED_RATIO, FREE_BYTES, FREE_BYTES + 1, 1).is_err());
        assert!(check_pixels(4096, 4096, 1).is_ok());
        assert!(check_pixels(29_314, 6_000, 457).is_err());
        assert!(check_pixels(29_314, 6_000, 1 << 20).is_ok());
    }
}
