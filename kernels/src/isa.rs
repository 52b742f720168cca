use std::fmt;

use crate::KernelError;

/// An instruction set the kernels are written for. One binary holds them all; the choice is made at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain Rust: the reference every other set is tested against.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C (2013 and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and VNNI (Ice Lake, Zen 4 and later).
    Avx512Vnni,
    /// 64-bit ARM with Advanced SIMD.
    Neon,
}

impl Isa {
    /// Every set, slowest first.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Neon, Isa::Avx2, Isa::Avx512Vnni];

    /// The fastest set this processor has.
    #[must_use]
    pub fn detect() -> Isa {
        Isa::ALL
            .into_iter()
            .rev()
            .find(|isa| isa.is_available())
            .unwrap_or(Isa::Scalar)
    }

    /// The set named by the environment variable `MNEME_ISA`, or else [`Isa::detect`].
    ///
    /// # Errors
    /// [`KernelError::IsaUnknown`] for a name that is none of `scalar`, `avx2`, `avx512vnni`, `neon`, and
    /// [`KernelError::IsaUnavailable`] for a set this processor lacks.
    pub fn from_env() -> Result<Isa, KernelError> {
        match std::env::var_os("MNEME_ISA") {
            None => Ok(Isa::detect()),
            Some(value) => Isa::parse(&value.to_string_lossy())?.checked(),
        }
    }

    /// Whether this processor has the set.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            Isa::Avx2 => has_avx2(),
            Isa::Avx512Vnni => has_avx2() && has_avx512_vnni(),
            Isa::Neon => cfg!(all(target_arch = "aarch64", target_feature = "neon")),
        }
    }

    /// The name `MNEME_ISA` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Neon => "neon",
        }
    }

    pub(crate) fn checked(self) -> Result<Isa, KernelError> {
        if self.is_available() {
            Ok(self)
        } else {
            Err(KernelError::IsaUnavailable {
                requested: self,
                best: Isa::detect(),
            })
        }
    }

    fn parse(name: &str) -> Result<Isa, KernelError> {
        Isa::ALL
            .into_iter()
            .find(|isa| isa.name().eq_ignore_ascii_case(name.trim()))
            .ok_or_else(|| KernelError::IsaUnknown {
                received: name.to_owned(),
            })
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512_vnni() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vnni")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512_vnni() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_whatever_the_case() {
        for isa in Isa::ALL {
            assert_eq!(Isa::parse(&isa.name().to_uppercase()).unwrap(), isa);
        }
        assert!(
            matches!(Isa::parse("sse9"), Err(KernelError::IsaUnknown { received }) if received == "sse9")
        );
    }

    #[test]
    fn a_foreign_set_is_refused_with_the_best_one_named() {
        let foreign = if cfg!(target_arch = "aarch64") {
            Isa::Avx2
        } else {
            Isa::Neon
        };
        let message = foreign.checked().unwrap_err().to_string();
        assert!(
            message.contains(foreign.name()) && message.contains(Isa::detect().name()),
            "{message}"
        );
    }

    #[test]
    fn the_detected_set_is_available() {
        assert!(Isa::detect().is_available());
    }
}
