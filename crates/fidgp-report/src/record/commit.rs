use std::sync::OnceLock;

static BUILT_FROM: OnceLock<String> = OnceLock::new();

/// Says which commit the program is built from; the first to say so is believed.
pub fn built_from(commit: &str) {
    BUILT_FROM.get_or_init(|| commit.to_owned());
}

/// The commit of the source this program was built from: 12 digits, `-dirty` where the source differed from it, `unknown` where
/// nobody said. `FIDGP_COMMIT` comes first.
pub fn commit() -> String {
    let said = || BUILT_FROM.get().cloned().unwrap_or_else(|| "unknown".to_owned());
    std::env::var("FIDGP_COMMIT").unwrap_or_else(|_| said())
}
