/// A typographic minus sign.
pub fn minus(text: &str) -> String {
    text.replace('-', "−")
}

/// Three significant digits with a suffix: 1.2k, 5.51M, 11.8G.
///
/// ```
/// use fidgp_report::words::format::short;
///
/// assert_eq!((short(5_510_000.0), short(20_000.0), short(-0.25)), ("5.51M".into(), "20k".into(), "−0.25".into()));
/// ```
pub fn short(value: f64) -> String {
    let (size, suffix) = match value.abs() {
        v if v >= 999.5e9 => (1e12, "T"),
        v if v >= 999.5e6 => (1e9, "G"),
        v if v >= 999.5e3 => (1e6, "M"),
        v if v >= 999.5 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let scaled = value / size;
    let decimals = if scaled.abs() >= 99.95 {
        0
    } else if scaled.abs() >= 9.995 {
        1
    } else {
        2
    };
    if scaled.abs() >= 1e4 || (scaled != 0.0 && scaled.abs() < 0.01) {
        return power_of_ten(value);
    }
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    minus(text) + suffix
}

/// `2.5×10⁻⁷`.
pub fn power_of_ten(value: f64) -> String {
    scientific(value, 1)
}

/// The same with up to `decimals` digits after the point.
pub fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let Some((digits, power)) = text.split_once('e') else { return minus(&text) };
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    let raised: String = power.chars().map(superscript).collect();
    if digits == "1" { format!("10{raised}") } else { format!("{}×10{raised}", minus(digits)) }
}

fn superscript(letter: char) -> char {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    letter.to_digit(10).map_or('⁻', |digit| RAISED[digit as usize])
}

/// About four significant digits, without powers of ten where they can be avoided.
pub fn plain(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => return "0".to_owned(),
        v if !(1e-4..1e6).contains(&v) => return power_of_ten(value),
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 => 3,
        _ => 4,
    };
    minus(&format!("{value:.decimals$}"))
}

/// `12.34 ± 0.56`: the spread to two significant digits, the value to the same place.
pub fn with_spread(value: f64, spread: f64) -> String {
    if !(1e-9..1e9).contains(&spread) {
        return format!("{} ± {}", plain(value), plain(spread));
    }
    let decimals = (1.0 - spread.log10().floor()).clamp(0.0, 8.0) as usize;
    format!("{} ± {}", minus(&format!("{value:.decimals$}")), format_args!("{spread:.decimals$}"))
}

/// Digits in groups of three: `11 173 962`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}'); // narrow no-break space
        }
        text.push(digit);
    }
    text
}

/// `83.6 kB`, decimal units.
pub fn bytes(value: u64) -> String {
    let value = value as f64;
    let (size, unit) = match value {
        v if v >= 1e9 => (1e9, "GB"),
        v if v >= 1e6 => (1e6, "MB"),
        v if v >= 1e3 => (1e3, "kB"),
        _ => (1.0, "B"),
    };
    format!("{} {unit}", short(value / size))
}

/// `41.5 ms`, `12.3 s`, `3 min 20 s`, `2 h 05 min`.
pub fn seconds(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => "–".to_owned(),
        v if v < 0.9995 => format!("{} ms", short(v * 1e3)),
        v if v < 99.95 => format!("{} s", short(v)),
        v if v < 3600.0 => format!("{} min {:02} s", (v / 60.0).floor(), (v % 60.0).floor()),
        v => format!("{} h {:02} min", (v / 3600.0).floor(), (v % 3600.0 / 60.0).floor()),
    }
}
