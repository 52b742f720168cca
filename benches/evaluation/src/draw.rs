//! Seeded draws of questions: the same on every machine and version.

use crate::bootstrap::SplitMix64;

/// `count` of the items, drawn at random, in their order; all of them where there are no more.
#[must_use]
pub fn draw<T>(mut items: Vec<T>, count: usize, seed: u64) -> Vec<T> {
    let mut random = SplitMix64(seed);
    while items.len() > count {
        let index = (random.next() % items.len() as u64) as usize;
        items.remove(index);
    }
    items
}

/// `count` of the items, from every group its share, in their order. What rounding leaves goes to the groups with the
/// largest remainders.
#[must_use]
pub fn draw_stratified<T>(items: Vec<T>, group: impl Fn(&T) -> String, count: usize, seed: u64) -> Vec<T> {
    let total = items.len();
    if total <= count {
        return items;
    }
    let mut groups: Vec<(String, Vec<(usize, T)>)> = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let name = group(&item);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push((place, item)),
            None => groups.push((name, vec![(place, item)])),
        }
    }
    let mut quotas: Vec<usize> = groups
        .iter()
        .map(|(_, members)| members.len() * count / total)
        .collect();
    let mut by_remainder: Vec<usize> = (0..groups.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(groups[index].1.len() * count % total));
    let left = count - quotas.iter().sum::<usize>();
    for index in by_remainder.into_iter().take(left) {
        quotas[index] += 1;
    }
    let mut drawn: Vec<(usize, T)> = groups
        .into_iter()
        .zip(quotas)
        .zip(1..)
        .flat_map(|(((_, members), quota), salt)| draw(members, quota, seed ^ (salt << 32)))
        .collect();
    drawn.sort_by_key(|(place, _)| *place);
    drawn.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_keeps_the_order_and_is_always_the_same() {
        let drawn = draw((0..100).collect(), 10, 7);
        assert!(drawn.is_sorted() && drawn.len() == 10, "{drawn:?}");
        assert_eq!(drawn, draw((0..100).collect(), 10, 7));
        assert_ne!(drawn, draw((0..100).collect(), 10, 8));
        assert_eq!(draw(vec![1, 2], 10, 7), [1, 2]);
    }

    #[test]
    fn strata_have_their_share() {
        let group = |n: &usize| {
            if *n < 60 {
                "a"
            } else if *n < 90 {
                "b"
            } else {
                "c"
            }
            .to_owned()
        };
        let drawn = draw_stratified((0..100).collect(), group, 11, 7);
        let counts = ["a", "b", "c"].map(|name| drawn.iter().filter(|n| group(n) == name).count());
        assert_eq!((drawn.len(), counts.iter().sum::<usize>()), (11, 11));
        assert!(
            (6..=7).contains(&counts[0]) && (3..=4).contains(&counts[1]) && counts[2] >= 1,
            "{counts:?}"
        );
        assert!(drawn.is_sorted());
    }
}
