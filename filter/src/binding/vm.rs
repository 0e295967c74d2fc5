//! What the root contexts of one VM share. With each new configuration a worker's VM gets a new root context, while Envoy
//! keeps the names of queues for good, with a few KiB each, and the numbers of metrics as long as the VM. So neither is
//! made anew for each.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use proxy_wasm::hostcalls;
use proxy_wasm::types::MetricType;

use super::envoy::error;
use crate::host::HostError;
use crate::metrics::Metric;

#[derive(Default)]
struct Vm {
    metrics: Option<Rc<[u32]>>,
    /// The names of queues that nobody has at the moment, and how many there are altogether.
    free: Vec<u32>,
    names: u32,
}

thread_local! {
    static VM: RefCell<Vm> = RefCell::default();
    /// All VMs of one `vm_id` share their queues' names, so that a name has to have something of its VM in it.
    static ID: u64 = RandomState::new().hash_one(0);
}

/// The numbers of all metrics, in their order.
pub fn metrics() -> Result<Rc<[u32]>, HostError> {
    VM.with_borrow_mut(|vm| {
        if let Some(metrics) = &vm.metrics {
            return Ok(Rc::clone(metrics));
        }
        let define = |metric: Metric| {
            let kind = if metric.is_gauge() { MetricType::Gauge } else { MetricType::Counter };
            hostcalls::define_metric(kind, metric.name()).map_err(error)
        };
        let metrics = Metric::ALL.into_iter().map(define).collect::<Result<Rc<_>, _>>()?;
        Ok(Rc::clone(vm.metrics.insert(metrics)))
    })
}

/// A queue that only one root context has: a queue wakes whoever registered its name last. The name is given back when
/// it is dropped.
pub struct Queue {
    name: u32,
    token: Cell<Option<u32>>,
}

impl Queue {
    pub fn new() -> Self {
        let name = VM.with_borrow_mut(|vm| {
            vm.free.pop().unwrap_or_else(|| {
                vm.names += 1;
                vm.names
            })
        });
        Self { name, token: Cell::new(None) }
    }

    /// Envoy's number for it. It is registered at its first use, because the VM in which Envoy tries out a
    /// configuration has none for it. In a request's context it is the root context that is registered.
    pub fn token(&self) -> Result<u32, HostError> {
        if let Some(token) = self.token.get() {
            return Ok(token);
        }
        let name = format!("sluice.{:016x}.{}", ID.with(|id| *id), self.name);
        let token = hostcalls::register_shared_queue(&name).map_err(error)?;
        self.token.set(Some(token));
        Ok(token)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        VM.with_borrow_mut(|vm| vm.free.push(self.name));
    }
}
