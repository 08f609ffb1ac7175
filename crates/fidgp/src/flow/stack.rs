//! Parameters along a new leading axis.

use tch::Tensor;

use crate::spectral::PowerState;

/// Parameters that can be stacked along a new leading axis.
pub(super) trait Stack: Sized {
    /// One value whose tensors have a leading axis over `parts`; gradients flow back into the parts.
    fn stack(parts: &[&Self]) -> Self;
    /// The same parameters, not copies.
    fn share(&self) -> Self;
    /// Copies the power iterations of a stacked value back into its parts.
    fn write_back(&self, _parts: &[&Self]) {}
}

/// Implements [`Stack`] field by field; the `same` fields are taken from the first part.
macro_rules! stack_fields {
    ($type:ident { $($field:ident),+ } $(same { $($plain:ident),+ })?) => {
        impl $crate::flow::stack::Stack for $type {
            fn stack(parts: &[&Self]) -> Self {
                use $crate::flow::stack::{Stack, field};
                Self {
                    $($field: Stack::stack(&field(parts, |part| &part.$field)),)+
                    $($($plain: Clone::clone(&parts[0].$plain),)+)?
                }
            }

            fn share(&self) -> Self {
                use $crate::flow::stack::Stack;
                Self { $($field: Stack::share(&self.$field),)+ $($($plain: Clone::clone(&self.$plain),)+)? }
            }

            fn write_back(&self, parts: &[&Self]) {
                use $crate::flow::stack::{Stack, field};
                $(Stack::write_back(&self.$field, &field(parts, |part| &part.$field));)+
            }
        }
    };
}
pub(super) use stack_fields;

/// One field of every part.
pub(super) fn field<'a, T, F>(parts: &[&'a T], of: impl Fn(&'a T) -> &'a F) -> Vec<&'a F> {
    parts.iter().map(|part| of(part)).collect()
}

impl Stack for Tensor {
    fn stack(parts: &[&Self]) -> Self {
        Tensor::stack(parts, 0)
    }

    fn share(&self) -> Self {
        self.shallow_clone()
    }
}

impl Stack for PowerState {
    fn stack(parts: &[&Self]) -> Self {
        PowerState::stack(parts)
    }

    fn share(&self) -> Self {
        PowerState::share(self)
    }

    fn write_back(&self, parts: &[&Self]) {
        PowerState::write_back(self, parts);
    }
}

impl<T: Stack> Stack for Option<T> {
    fn stack(parts: &[&Self]) -> Self {
        let inner: Option<Vec<&T>> = parts.iter().map(|part| part.as_ref()).collect();
        inner.map(|inner| T::stack(&inner))
    }

    fn share(&self) -> Self {
        self.as_ref().map(T::share)
    }

    fn write_back(&self, parts: &[&Self]) {
        let inner: Option<Vec<&T>> = parts.iter().map(|part| part.as_ref()).collect();
        if let (Some(stacked), Some(inner)) = (self, inner) {
            stacked.write_back(&inner);
        }
    }
}

impl<T: Stack> Stack for Vec<T> {
    fn stack(parts: &[&Self]) -> Self {
        (0..parts[0].len()).map(|i| T::stack(&field(parts, |part| &part[i]))).collect()
    }

    fn share(&self) -> Self {
        self.iter().map(T::share).collect()
    }

    fn write_back(&self, parts: &[&Self]) {
        for (i, stacked) in self.iter().enumerate() {
            stacked.write_back(&field(parts, |part| &part[i]));
        }
    }
}
