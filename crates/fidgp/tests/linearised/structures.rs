//! The structures that are not exact, where they are, and how they come near.

use fidgp::linearised::{FitConfig, PriorPrecision, StructureKind, Tangent};
use tch::Tensor;

use super::networks::{Mlp, covariances, fitted, gap, inducing, normal, store};

fn config(structure: StructureKind) -> FitConfig {
    FitConfig { structure, prior: PriorPrecision::Given(1.0), ..FitConfig::default() }
}

/// One linear layer under constant noise: every example has the same signals.
#[test]
fn kronecker_is_exact_for_one_linear_layer() {
    let store = store();
    let network = Mlp::new(&store, &[5, 3], &inducing(2, 4));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let (train, at) = (normal("train", &[20, 5]), normal("at", &[8, 5]) * 2.0);
    let law = |structure| covariances(&fitted(&tangent, &train, None, &config(structure)), &tangent, &at);
    assert!(gap(&law(StructureKind::Kronecker), &law(StructureKind::Dense)) < 1e-10);
}

/// Of a deeper network it is not, but the trace of H is kept.
#[test]
fn kronecker_keeps_the_trace() {
    let store = store();
    let network = Mlp::new(&store, &[3, 6, 5, 2], &inducing(4, 3));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let train = normal("train", &[20, 3]);
    let trace = |structure| {
        let posterior = fitted(&tangent, &train, None, &config(structure));
        posterior.structure.eigenvalues().sum(tch::Kind::Double).double_value(&[])
    };
    let (kronecker, dense) = (trace(StructureKind::Kronecker), trace(StructureKind::Dense));
    assert!((kronecker / dense - 1.0).abs() < 1e-10, "{kronecker} {dense}");
    let at = normal("at", &[8, 3]);
    let law = |structure| covariances(&fitted(&tangent, &train, None, &config(structure)), &tangent, &at);
    assert!(gap(&law(StructureKind::Kronecker), &law(StructureKind::Dense)) > 1e-4);
}

/// The error falls with the rank, and is none when the rank is that of the data; it is never on the side of too little.
#[test]
fn low_rank_becomes_dense_as_the_rank_grows() {
    let store = store();
    let network = Mlp::new(&store, &[3, 8, 7, 2], &inducing(6, 4));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let (train, at) = (normal("train", &[150, 3]), normal("at", &[8, 3]) * 2.0);
    let law = |structure| covariances(&fitted(&tangent, &train, None, &config(structure)), &tangent, &at);
    let dense = law(StructureKind::Dense);
    let mut last = f64::INFINITY;
    for rank in [1, 5, 20, 40, tangent.size()] {
        let posterior = fitted(&tangent, &train, None, &config(StructureKind::LowRank { rank }));
        let found = covariances(&posterior, &tangent, &at);
        let away = gap(&found, &dense);
        assert!(away < last, "rank {rank}: {away} after {last}");
        let more: Tensor = (&found - &dense).linalg_eigvalsh("L");
        assert!(more.min().double_value(&[]) > -1e-9, "rank {rank} knows more than the data say");
        assert!(posterior.structure.share() <= 1.0 + 1e-12);
        last = away;
    }
    assert!(last < 1e-9, "{last}");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_asked_for() {
    let store = store();
    let network = Mlp::new(&store, &[3, 100, 100, 1], &inducing(100, 100));
    let tangent = Tangent::at_centre(&network, &[]).unwrap();
    let said = |kind: StructureKind, rows| kind.gather(&tangent, rows).err().map(|error| error.to_string());
    let dense = said(StructureKind::Dense, 1 << 40).unwrap();
    assert!(dense.contains("kronecker") && dense.contains("low-rank"), "{dense}");
    assert!(said(StructureKind::Dense, 100).is_none() && said(StructureKind::Auto, 1 << 40).is_none());
    assert!(said(StructureKind::LowRank { rank: 0 }, 5).unwrap().contains("must be 1 to"));
    assert!(said(StructureKind::LowRank { rank: 1 << 40 }, 5).is_some());
}
