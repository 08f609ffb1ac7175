//! Values in order, of which there may be millions.

/// Values of a part at most; then it is cut in two.
const PART: usize = 1024;

/// Values in order, in parts, so that one more moves a thousand others at most.
#[derive(Debug, Clone)]
pub struct Ranks {
    parts: Vec<Vec<f64>>, // sorted each and among themselves, none empty
    len: usize,
}

impl Ranks {
    /// Of values that are numbers.
    pub fn new(values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().map(|value| value + 0.0).collect(); // -0 is 0
        sorted.sort_by(f64::total_cmp);
        Self { parts: sorted.chunks(PART / 2).map(<[f64]>::to_vec).collect(), len: values.len() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes a number in, and says how many there were below it, and below or equal.
    pub fn insert(&mut self, value: f64) -> [usize; 2] {
        let found = [self.count(|other| other < value), self.count(|other| other <= value)];
        self.len += 1;
        let place = self.parts.partition_point(|part| part.last().is_some_and(|last| *last < value));
        let Some(place) = place.checked_sub(usize::from(place == self.parts.len())) else {
            self.parts.push(vec![value]);
            return found;
        };
        let part = &mut self.parts[place];
        part.insert(part.partition_point(|&other| other <= value), value);
        if part.len() > PART {
            let rest = part.split_off(PART / 2);
            self.parts.insert(place + 1, rest);
        }
        found
    }

    /// How many come before the first for which it does not hold.
    fn count(&self, holds: impl Fn(f64) -> bool) -> usize {
        let whole = self.parts.partition_point(|part| part.last().is_some_and(|last| holds(*last)));
        let before: usize = self.parts[..whole].iter().map(Vec::len).sum();
        before + self.parts.get(whole).map_or(0, |part| part.partition_point(|&other| holds(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_a_sorted_list() {
        let value = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 22); // 1024 different ones, many ties
        let mut sorted: Vec<f64> = (0..700).map(value).collect();
        let mut ranks = Ranks::new(&sorted);
        sorted.sort_by(f64::total_cmp);
        for i in 700..9000 {
            let value = if i % 50 == 0 { f64::INFINITY } else { value(i) };
            let below = sorted.partition_point(|&other| other < value);
            let up_to = sorted.partition_point(|&other| other <= value);
            assert_eq!(ranks.insert(value), [below, up_to], "{value}, the {i}th");
            sorted.insert(up_to, value);
            assert_eq!(ranks.len(), sorted.len());
        }
        assert_eq!(ranks.parts.concat(), sorted);
        let mut none = Ranks::new(&[]);
        assert_eq!((none.insert(1.0), none.insert(0.0)), ([0, 0], [0, 0]));
    }
}
