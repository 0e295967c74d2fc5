//! The binding to Envoy: proxy-wasm's contexts on one side, a [`Worker`] and its [`Host`] on the other.

use std::cell::RefCell;
use std::rc::Rc;

use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, BufferType, ContextType, LogLevel};

use self::envoy::Envoy;
use crate::batch::{SlotRef, State};
use crate::config::Config;
use crate::headers::{self, Field};
use crate::host::Host;
use crate::worker::{Start, Worker};

mod envoy;
#[cfg(feature = "panics-for-tests")]
mod panics;
mod vm;

// The one unsafe thing here is the exported `_initialize` with which the host starts the plugin.
#[allow(unsafe_code, missing_docs)]
mod start {
    proxy_wasm::main! {{
        proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Warn);
        proxy_wasm::set_root_context(|id| Box::new(super::Root::new(id)));
    }}
}

/// What a root context shares with its requests, once it is configured.
struct Shared {
    host: Envoy,
    worker: RefCell<Worker>,
}

struct Root {
    id: u32,
    shared: Option<Rc<Shared>>,
}

impl Root {
    fn new(id: u32) -> Self {
        Self { id, shared: None }
    }

    /// Calls the worker. It can't be busy already: the host does not call back before a call of ours returns.
    fn with_worker(&self, call: impl FnOnce(&mut Worker, &Envoy)) {
        if let Some(shared) = &self.shared
            && let Ok(mut worker) = shared.worker.try_borrow_mut()
        {
            call(&mut worker, &shared.host);
        }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body: usize, _trailers: usize) {
        let answer = envoy::call_answer(headers, body);
        self.with_worker(|worker, host| worker.answered(host, token, answer));
    }

    fn on_done(&mut self) -> bool {
        self.with_worker(|worker, host| worker.stop(host));
        true
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, size: usize) -> bool {
        let json = match size {
            0 => None,
            _ => hostcalls::get_buffer(BufferType::PluginConfiguration, 0, size).ok().flatten(),
        };
        let config = Config::parse(&json.unwrap_or_default()).and_then(|mut config| {
            config.read_secrets(|name| std::env::var(name).ok())?;
            Ok(config)
        });
        let config = match config {
            Ok(config) => config,
            Err(error) => {
                let message = format!("sluice: invalid plugin configuration: {error}");
                let _ = hostcalls::log(LogLevel::Error, &message); // nobody else to tell
                return false;
            }
        };
        match Envoy::new(self.id) {
            Ok(host) => {
                self.shared = Some(Rc::new(Shared { host, worker: RefCell::new(Worker::new(config)) }));
                true
            }
            Err(error) => {
                let message = format!("sluice: the host won't define metrics: {error}");
                let _ = hostcalls::log(LogLevel::Error, &message); // nobody else to tell
                false
            }
        }
    }

    fn on_queue_ready(&mut self, _queue: u32) {
        self.with_worker(|worker, host| worker.wake_up(host));
    }

    fn on_tick(&mut self) {
        self.with_worker(|worker, host| worker.tick(host));
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http { id, shared: self.shared.clone(), slot: None, fields: Vec::new() }))
    }
}

struct Http {
    id: u32,
    shared: Option<Rc<Shared>>,
    slot: Option<SlotRef>,
    /// What the response gets of a request that never waited.
    fields: Vec<Field>,
}

impl Http {
    fn leave(&mut self) {
        if let (Some(slot), Some(shared)) = (self.slot.take(), &self.shared)
            && let Ok(mut worker) = shared.worker.try_borrow_mut()
        {
            worker.gone(&shared.host, &slot);
        }
    }
}

impl Context for Http {
    fn on_done(&mut self) -> bool {
        self.leave();
        true
    }
}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        #[cfg(feature = "panics-for-tests")]
        panics::if_asked();
        let Some(shared) = &self.shared else { return Action::Continue };
        let Ok(mut worker) = shared.worker.try_borrow_mut() else { return Action::Continue };
        match worker.request(&shared.host, self.id) {
            Start::Pass => Action::Continue,
            Start::Go(fields) => {
                self.fields = fields;
                Action::Continue
            }
            Start::Stop => Action::Pause,
            Start::Wait(slot) => {
                self.slot = Some(slot);
                Action::Pause
            }
        }
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        let Some(shared) = &self.shared else { return Action::Continue };
        let mut fields = std::mem::take(&mut self.fields);
        let mut waits = false;
        if let Some(Ok(mut slot)) = self.slot.as_ref().map(|slot| slot.try_borrow_mut()) {
            match &mut slot.state {
                // Somebody else, such as a timeout of Envoy's, answers the request.
                State::Waiting => waits = true,
                State::Resumed(resumed) => fields = std::mem::take(resumed),
                State::Answered => {}
            }
        }
        for (name, value) in &fields {
            shared.host.put_response_header(name, value, headers::placed(name));
        }
        if waits {
            self.leave();
        }
        Action::Continue
    }
}
