//! Which deliveries the receiver has seen, and how often. It remembers only the latest ones.

use std::collections::{HashMap, VecDeque};

/// Counts the attempts of each delivery. When it is full, it forgets the delivery that it has known longest.
pub(super) struct Seen {
    attempts: HashMap<String, u32>,
    in_order: VecDeque<String>,
    deliveries_max: usize,
}

impl Seen {
    pub(super) fn new(deliveries_max: usize) -> Seen {
        Seen { attempts: HashMap::new(), in_order: VecDeque::new(), deliveries_max }
    }

    /// Counts an attempt, and returns how many attempts of this delivery there were, including this one.
    pub(super) fn count(&mut self, delivery_id: &str) -> u32 {
        if let Some(attempts) = self.attempts.get_mut(delivery_id) {
            *attempts = attempts.saturating_add(1);
            return *attempts;
        }
        if self.in_order.len() >= self.deliveries_max
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.attempts.remove(&oldest);
        }
        self.in_order.push_back(delivery_id.to_owned());
        self.attempts.insert(delivery_id.to_owned(), 1);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_and_the_oldest_delivery_is_forgotten() {
        let mut seen = Seen::new(2);
        assert_eq!([seen.count("a"), seen.count("b"), seen.count("a")], [1, 1, 2]);
        assert_eq!(seen.count("c"), 1);
        assert_eq!((seen.attempts.len(), seen.in_order.len()), (2, 2));
        assert_eq!([seen.count("b"), seen.count("c")], [2, 2]);
        assert_eq!(seen.count("a"), 1, "forgotten");
        assert_eq!((seen.attempts.len(), seen.in_order.len()), (2, 2));
    }
}
