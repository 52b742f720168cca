//! Products of whole numbers of 16 bits, on the widest registers that the machine has.
#![expect(
    unsafe_code,
    reason = "code for AVX2 may run only where the CPU has it, which the compiler cannot know"
)]

/// The scalar product of `query` with every row; a row is as long as the query. Products must fit an `i32` when summed
/// over a row.
pub(super) fn products(rows: &[i16], query: &[i16], out: &mut Vec<i32>) {
    out.clear();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        unsafe { products_avx2(rows, query, out) };
        return;
    }
    products_anywhere(rows, query, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_avx2(rows: &[i16], query: &[i16], out: &mut Vec<i32>) {
    products_anywhere(rows, query, out);
}

#[inline(always)]
fn products_anywhere(rows: &[i16], query: &[i16], out: &mut Vec<i32>) {
    let product = |row: &[i16]| -> i32 {
        row.iter()
            .zip(query)
            .map(|(&a, &b)| i32::from(a) * i32::from(b))
            .sum()
    };
    out.extend(rows.chunks_exact(query.len().max(1)).map(product));
}

/// For each query token the greatest product with any token of a turn; `bits` are the turn's tokens, each
/// `width.div_ceil(8)` bytes, a set bit standing for 1 and another for -1. `queries` are tokens of `width` values laid
/// end to end.
pub(super) fn greatest(bits: &[u8], queries: &[i16], width: usize, out: &mut [i32]) {
    out.fill(i32::MIN);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        unsafe { greatest_avx2(bits, queries, width, out) };
        return;
    }
    greatest_anywhere(bits, queries, width, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn greatest_avx2(bits: &[u8], queries: &[i16], width: usize, out: &mut [i32]) {
    greatest_anywhere(bits, queries, width, out);
}

#[inline(always)]
fn greatest_anywhere(bits: &[u8], queries: &[i16], width: usize, out: &mut [i32]) {
    let mut signs = vec![0i16; width.div_ceil(8) * 8];
    for token in bits.chunks_exact(width.div_ceil(8).max(1)) {
        for (eight, byte) in signs.chunks_exact_mut(8).zip(token) {
            for (place, sign) in eight.iter_mut().enumerate() {
                *sign = i16::from(byte >> place & 1) * 2 - 1;
            }
        }
        for (greatest, query) in out.iter_mut().zip(queries.chunks_exact(width.max(1))) {
            let product: i32 = signs
                .iter()
                .zip(query)
                .map(|(&a, &b)| i32::from(a) * i32::from(b))
                .sum();
            *greatest = (*greatest).max(product);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fast_products_equal_plain_ones(
            (width, rows, query, bits) in (1..70usize).prop_flat_map(|width| (
                Just(width),
                prop::collection::vec(-3000i16..3000, width * 3),
                prop::collection::vec(-3000i16..3000, width * 2),
                prop::collection::vec(any::<u8>(), width.div_ceil(8) * 4),
            )),
        ) {
            let (one, mut found) = (&query[..width], Vec::new());
            products(&rows, one, &mut found);
            let plain = |a: &[i16], b: &[i16]| -> i32 { a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum() };
            let expected: Vec<i32> = rows.chunks(width).map(|row| plain(row, one)).collect();
            prop_assert_eq!(&found, &expected);

            let mut best = [0; 2];
            greatest(&bits, &query, width, &mut best);
            for (query, best) in query.chunks(width).zip(best) {
                let sign = |token: &[u8], i: usize| if token[i / 8] >> (i % 8) & 1 == 1 { 1i16 } else { -1 };
                let expected = bits.chunks(width.div_ceil(8)).map(|token| {
                    plain(query, &(0..width).map(|i| sign(token, i)).collect::<Vec<_>>())
                });
                prop_assert_eq!(Some(best), expected.max());
            }
        }
    }
}
