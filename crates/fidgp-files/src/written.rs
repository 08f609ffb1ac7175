//! What a cell of a table means, whoever wrote it.

/// Yes or no, in words.
pub fn boolean(cell: &str) -> Option<bool> {
    match cell.to_lowercase().as_str() {
        "yes" | "true" | "y" | "t" | "ja" => Some(true),
        "no" | "false" | "n" | "f" | "nein" => Some(false),
        _ => None,
    }
}

/// Days from 1970-01-01 to a date, `2024-01-31`, `2024-01-31T12:30[:00]`, `31.1.2024 12:30` or `31/01/2024`, with a part of a
/// day for its time; an offset from UTC is taken off. Between slashes the day comes first.
///
/// ```
/// assert_eq!(fidgp_files::written::date("1970-01-02T12:00"), Some(1.5));
/// assert_eq!(fidgp_files::written::date("2.1.1970"), Some(1.0));
/// ```
pub fn date(cell: &str) -> Option<f64> {
    let (day, time) = match cell.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (cell, None),
    };
    let part = |text: &str, digits: usize| {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i64>().ok())?
    };
    let short = |text: &str| part(text, 2).or_else(|| part(text, 1));
    let mark = ['-', '.', '/'].into_iter().find(|&mark| day.contains(mark))?;
    let parts: Vec<&str> = day.split(mark).collect();
    let (year, month, day) = match parts[..] {
        [year, month, of_month] if mark == '-' => (part(year, 4)?, part(month, 2)?, part(of_month, 2)?),
        [of_month, month, year] if mark != '-' => (part(year, 4)?, short(month)?, short(of_month)?),
        _ => return None,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // days of the civil calendar, years counted from March
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days as f64 + time.map_or(Some(0.0), day_part)?)
}

/// `12:30`, `12:30:15.5`, `12:30Z`, `12:30+02:00` as a part of a day.
fn day_part(time: &str) -> Option<f64> {
    let clock = |text: &str| {
        let mut parts = text.split(':');
        let mut next = |most: f64| {
            let digits = parts.next()?;
            let number = digits.parse::<f64>().ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))?;
            (number < most).then_some(number)
        };
        let (hours, minutes) = (next(24.0)?, next(60.0)?);
        let seconds = if text.matches(':').count() > 1 { next(61.0)? } else { 0.0 };
        parts.next().is_none().then_some((hours * 60.0 + minutes) * 60.0 + seconds)
    };
    let time = time.trim_end_matches('Z');
    let (time, offset) = match time.rsplit_once(['+', '-']) {
        Some((local, offset)) => (local, clock(offset)? * if time.contains('+') { 1.0 } else { -1.0 }),
        None => (time, 0.0),
    };
    Some((clock(time)? - offset) / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_in_two_languages() {
        for (yes, no) in [("yes", "no"), ("True", "FALSE"), ("y", "n"), ("t", "f"), ("ja", "Nein")] {
            assert_eq!((boolean(yes), boolean(no)), (Some(true), Some(false)), "{yes}, {no}");
        }
        assert_eq!(["", "1", "ye", "on"].map(boolean), [None; 4]);
    }

    #[test]
    fn dates_are_days_and_nothing_else_is_a_date() {
        let is = |text: &str, days: f64| assert_eq!(date(text).map(f64::to_bits), Some(days.to_bits()), "{text}");
        is("1970-01-01", 0.0);
        is("2000-03-01", 11_017.0);
        is("2024-02-29", 19_782.0);
        is("1969-12-31T12:00", -0.5);
        is("1970-01-02 06:00:00Z", 1.25);
        is("1970-01-01T02:00+02:00", 0.0);
        is("1970-01-01T00:00-06:00", 0.25);
        is("01.03.2000", 11_017.0);
        is("1.3.2000 12:00", 11_017.5);
        is("01/03/2000", 11_017.0);
        is("29/2/2024 06:00", 19_782.25);
        for other in [
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "24-01-01",
            "2024-01-01x",
            "2024-01-01T25:00",
            "2024",
            "",
            "31.2.2024",
            "1.2.24",
            "1.2-2024",
            "1/2.2024",
            "01/31/2024", // the day comes first
            "2024/01/31",
            "2024.01.31",
            "1.5",
        ] {
            assert_eq!(date(other), None, "{other}");
        }
    }
}
