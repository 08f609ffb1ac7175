//! Parameters shared out between layers.

/// One way to hold a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// R = C; none for plain weights.
    pub size: Option<i64>,
    /// Trainable numbers.
    pub parameters: i64,
    /// What the training loss is expected to rise by.
    pub loss: f64,
}

/// For each layer the place of its choice, so that the losses' sum is small and the parameters are within a budget; none where
/// even the smallest choices are not.
///
/// Steps are taken along the lower convex hull of every layer's choices, the one that saves most for each parameter first; what
/// is left goes to steps that still fit.
pub fn allocate(layers: &[Vec<Choice>], budget: i64) -> Option<Vec<usize>> {
    let hulls: Vec<Vec<usize>> = layers.iter().map(|choices| hull(choices)).collect();
    let mut at: Vec<usize> = vec![0; layers.len()];
    let cost = |layer: usize, place: usize| layers[layer][hulls[layer][place]].parameters;
    let mut left = budget - (0..layers.len()).map(|layer| cost(layer, 0)).sum::<i64>();
    if left < 0 || hulls.iter().any(Vec::is_empty) {
        return None;
    }
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (layer, hull) in hulls.iter().enumerate() {
        let slope = |place: usize| slope(&layers[layer][hull[place - 1]], &layers[layer][hull[place]]);
        steps.extend((1..hull.len()).map(|place| (slope(place), layer, place)));
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
    for (_, layer, place) in steps {
        let price = cost(layer, place) - cost(layer, at[layer]);
        if place > at[layer] && price <= left {
            left -= price;
            at[layer] = place;
        }
    }
    Some(at.into_iter().zip(&hulls).map(|(place, hull)| hull[place]).collect())
}

/// What a step saves for each parameter.
fn slope(from: &Choice, to: &Choice) -> f64 {
    (from.loss - to.loss) / (to.parameters - from.parameters) as f64
}

/// The choices on the lower convex hull of loss over parameters, by rising parameters and falling loss.
fn hull(choices: &[Choice]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..choices.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&choices[*a], &choices[*b]);
        a.parameters.cmp(&b.parameters).then(a.loss.total_cmp(&b.loss))
    });
    let mut hull: Vec<usize> = Vec::new();
    for next in order {
        let (one, last) = (&choices[next], hull.last().map(|last| &choices[*last]));
        if last.is_some_and(|last| one.loss >= last.loss || one.parameters == last.parameters) {
            continue; // dearer, and no better
        }
        while let [.., before, last] = hull[..] {
            if slope(&choices[before], &choices[last]) >= slope(&choices[last], one) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(pairs: &[(i64, f64)]) -> Vec<Choice> {
        pairs.iter().map(|&(parameters, loss)| Choice { size: Some(parameters), parameters, loss }).collect()
    }

    fn total(layers: &[Vec<Choice>], chosen: &[usize]) -> (i64, f64) {
        let picked = || layers.iter().zip(chosen).map(|(choices, place)| choices[*place]);
        (picked().map(|one| one.parameters).sum(), picked().map(|one| one.loss).sum())
    }

    #[test]
    fn the_hull_has_no_choice_that_is_dearer_and_worse() {
        let all = choices(&[(30, 1.0), (10, 9.0), (20, 8.5), (25, 2.0), (40, 1.5)]);
        assert_eq!(hull(&all), [1, 3, 0]); // (20, 8.5) lies above the line from 10 to 25
    }

    /// Against all combinations: within the budget, and no worse than what the best has with one step less.
    #[test]
    fn parameters_go_where_they_save_most() {
        let layers = [
            choices(&[(5, 40.0), (10, 12.0), (20, 3.0), (40, 0.0)]),
            choices(&[(5, 2.0), (10, 1.0), (20, 0.4), (40, 0.0)]),
            choices(&[(2, 30.0), (30, 5.0), (60, 0.0)]),
        ];
        assert_eq!(allocate(&layers, 11), None);
        for budget in 12..150 {
            let (spent, loss) = total(&layers, &allocate(&layers, budget).unwrap());
            assert!(spent <= budget, "{spent} of {budget}");
            let mut best = f64::INFINITY;
            for (a, b, c) in (0..4).flat_map(|a| (0..4).flat_map(move |b| (0..3).map(move |c| (a, b, c)))) {
                let (parameters, own) = total(&layers, &[a, b, c]);
                best = if parameters <= budget { best.min(own) } else { best };
            }
            assert!(loss >= best && loss <= best + 25.0, "{budget}: {loss}, best {best}");
        }
        assert_eq!(total(&layers, &allocate(&layers, 35).unwrap()), (32, 34.0)); // the third layer's step is too dear: the second's fits
        assert!(total(&layers, &allocate(&layers, 140).unwrap()).1.abs() < 1e-12);
    }
}
