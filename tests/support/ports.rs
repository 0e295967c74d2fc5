//! Ports on 127.0.0.1 that belong to one test.

use std::fs::{File, create_dir_all};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which systems take the ports of outgoing connections, so that no connection of Envoy's or
/// of a test's own client can take a port between its being chosen and its being listened on.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that nobody else uses. The lock keeps it for this test across restarts of whoever listens on it, also
/// against tests in other processes; the system lifts it when the process ends, however that happens.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    pub fn free() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let directory = std::env::temp_dir().join("sluice-test-ports");
        create_dir_all(&directory).unwrap();
        let size = RANGE.end - RANGE.start;
        // Test processes that start together look at different places first.
        let start = u16::try_from(std::process::id().wrapping_mul(101) % u32::from(size)).unwrap();
        for _ in 0..size {
            let number = RANGE.start + (start + NEXT.fetch_add(1, Ordering::Relaxed) % size) % size;
            let lock = File::create(directory.join(number.to_string())).unwrap();
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _lock: lock };
            }
        }
        panic!("no port of {RANGE:?} is free");
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}
