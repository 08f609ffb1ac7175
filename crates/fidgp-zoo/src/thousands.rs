//! Large numbers for people.

/// 1234567 → `1,234,567`
pub fn thousands(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1000, 11_220_132].map(thousands), ["0", "999", "1,000", "11,220,132"]);
    }
}
