//! Crowd: how many connections there are at once, and whose. No address takes more than its share, and
//! where there is no place left, who has said nothing yet makes room for who comes.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// One connection's place.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// Whether a request has come over it.
    has_spoken: AtomicBool,
    leave: CancellationToken,
}

impl Seat {
    /// A request has come.
    pub(super) fn speaks(&self) {
        self.has_spoken.store(true, Ordering::Relaxed);
    }

    /// Returns when it is to make room.
    pub(super) async fn has_to_go(&self) {
        self.leave.cancelled().await;
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    share: usize,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    /// By address, and there by when they came.
    taken: HashMap<IpAddr, BTreeMap<u64, Arc<Seat>>>,
    count: usize,
    next: u64,
}

/// A place that is taken for as long as this is kept.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    from: IpAddr,
    number: u64,
    pub(super) seat: Arc<Seat>,
}

impl Crowd {
    /// At most so many, and at most `share` of one address.
    pub(super) fn new(most: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { most, share, seats: Mutex::default() })
    }

    /// A place for one more from there, if there is one or somebody can make room.
    pub(super) fn place(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let from = household(from);
        let mut seats = self.seats();
        let is_full = seats.taken.get(&from).is_some_and(|there| there.len() >= self.share);
        if is_full && !seats.make_room(from) {
            return None;
        }
        if seats.count >= self.most {
            let largest = seats.taken.iter().max_by_key(|(_, there)| there.len());
            let largest = largest.map(|(from, _)| *from)?;
            if !seats.make_room(largest) {
                return None;
            }
        }
        seats.count += 1;
        seats.next += 1;
        let (number, seat) = (seats.next, Arc::new(Seat::default()));
        seats.taken.entry(from).or_default().insert(number, Arc::clone(&seat));
        drop(seats);
        Some(Place { crowd: Arc::clone(self), from, number, seat })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    /// Sends away who came first from there and has said nothing; whether there was anybody.
    fn make_room(&mut self, from: IpAddr) -> bool {
        let silent = self.taken.get(&from).into_iter().flatten();
        let mut silent = silent.filter(|(_, seat)| !seat.has_spoken.load(Ordering::Relaxed));
        let Some(number) = silent.next().map(|(number, _)| *number) else { return false };
        if let Some(seat) = self.remove(from, number) {
            seat.leave.cancel();
        }
        true
    }

    fn remove(&mut self, from: IpAddr, number: u64) -> Option<Arc<Seat>> {
        let there = self.taken.get_mut(&from)?;
        let seat = there.remove(&number)?;
        if there.is_empty() {
            self.taken.remove(&from);
        }
        self.count = self.count.saturating_sub(1);
        Some(seat)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever was sent away has left already.
        drop(self.crowd.seats().remove(self.from, self.number));
    }
}

/// Who counts as one: an address; of IPv6 the network, for one machine has all of its addresses.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_makes_room_and_who_speaks_stays() {
        let crowd = Crowd::new(3, 2);
        let (one, other): (IpAddr, IpAddr) =
            ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = crowd.place(one).unwrap();
        let second = crowd.place(one).unwrap();
        second.seat.speaks();
        let third = crowd.place(one).unwrap();
        assert!(first.seat.leave.is_cancelled() && !second.seat.leave.is_cancelled());
        third.seat.speaks();
        assert!(crowd.place(one).is_none(), "both speak");
        let fourth = crowd.place(other).unwrap();
        fourth.seat.speaks();
        assert!(crowd.place("10.0.0.3".parse().unwrap()).is_none(), "three in all");
        drop((first, third));
        assert!(crowd.place(one).is_some());
        assert_eq!(crowd.seats().count, 2);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let of = |text: &str| household(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
