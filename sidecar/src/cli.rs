//! The command line: what `sluice` can be asked to do.

use std::env::VarError;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::admin::client::ClientError;
use crate::admin::command::{InspectArgs, PeekArgs, PoliciesArgs, ReloadArgs, ResetArgs, TopArgs};
use crate::config::{Config, ConfigError, read_file};
use crate::config_file::ConfigFile;
use crate::import::{self, ImportError, Imported};
use crate::traces::{self, Traces};
use crate::{health, serve, store};

/// Exact, atomic rate limits for Envoy and Istio.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "policies, top, peek, inspect, reset and reload ask the admin listener of a running sidecar, by default at \
http://127.0.0.1:8081.

Exit codes: 0 done; 1 refused or failed, and stderr says why; 2 wrong usage, or a file that can't \
be read."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the filter's questions until SIGTERM or Ctrl-C; SIGHUP has the configuration read again
    Serve(ServeArgs),
    /// Check configuration files without starting anything
    Validate(ValidateArgs),
    /// Ask a running sidecar whether it is ready: for containers, which have nothing else to ask with
    Health {
        /// What to ask: a probe of the admin listener, without TLS
        #[arg(long, env = "SLUICE_HEALTH_URL", default_value = "http://127.0.0.1:8081/readyz")]
        url: String,
    },
    /// List the policies of a running sidecar, with their limits
    Policies(PoliciesArgs),
    /// List the keys that were asked about most in the last minute, and those that were denied most
    Top(TopArgs),
    /// Tell whether a check would be allowed now, as it is decided, and charge nothing
    Peek(PeekArgs),
    /// Tell what is kept of a key, in words and numbers; changes nothing
    Inspect(InspectArgs),
    /// Give a key its whole limit again
    Reset(ResetArgs),
    /// Have a running sidecar read its configuration again now, and tell what came of it
    Reload(ReloadArgs),
    /// Turn a configuration of envoyproxy/ratelimit into Sluice's; what has no equal is told on stderr
    Import(ImportArgs),
    /// Print a Lua script as it runs in Redis, to be run by hand (its head says how)
    Script {
        /// Which one
        #[arg(value_enum, default_value_t = Script::Decide)]
        script: Script,
    },
    /// Print the JSON schema of the filter's plugin configuration, for editors
    Schema,
    /// Print a script that completes this command line in a shell
    #[command(after_help = "Examples:
  source <(sluice completions bash)
  sluice completions zsh > ~/.zfunc/_sluice
  sluice completions fish > ~/.config/fish/completions/sluice.fish")]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice serve --config sluice.yaml
  RUST_LOG=debug sluice serve --log-format json")]
struct ServeArgs {
    /// The sidecar's configuration, YAML
    #[arg(long, short, env = "SLUICE_CONFIG", default_value = "sluice.yaml")]
    config: PathBuf,
    /// How log lines are written to stderr; the variable `RUST_LOG` sets what is logged
    #[arg(long, env = "SLUICE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Script {
    /// Decides requests
    Decide,
    /// Decides requests, and takes tokens ahead
    Lease,
    /// Gives charges back
    Refund,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice import ratelimit.yaml --only sidecar > sluice.yaml
  sluice import ratelimit.yaml --only filter > plugin.yaml
  sluice validate --config sluice.yaml --filter plugin.yaml

The file doesn't say which requests have which descriptors: rules that need a look have a TODO.")]
struct ImportArgs {
    /// The configuration of envoyproxy/ratelimit, YAML
    file: PathBuf,
    /// Print one of the two files; without it, both as two YAML documents
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    /// What `sluice serve` reads
    Sidecar,
    /// The plugin's configuration
    Filter,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sluice validate
  sluice validate --config sluice.yaml --filter envoy.yaml
  sluice validate --config sluice.yaml --filter wasmplugin.yaml

--filter takes what the plugin reads by itself, a bootstrap of Envoy's, or Kubernetes manifests: WasmPlugin, EnvoyFilter,
EnvoyExtensionPolicy, in any number of YAML documents.

Exit codes: 0 all is well; 1 something is wrong, in the file, line and field that is told; 2 wrong usage, or a file that
can't be read.")]
struct ValidateArgs {
    /// The sidecar's configuration, YAML
    #[arg(long, short, env = "SLUICE_CONFIG", default_value = "sluice.yaml")]
    config: PathBuf,
    /// The filter's plugin configuration, JSON or YAML, or the manifest or bootstrap that has it: also checks that every
    /// policy it names exists
    #[arg(long, short)]
    filter: Option<PathBuf>,
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => run_serve(&args),
        Command::Validate(args) => run_validate(&args),
        Command::Health { url } => match health::ask(&url) {
            Ok(status) => print(&format!("{status}\n")),
            Err(error) => fail(&error.to_string()),
        },
        Command::Policies(args) => ask(args.run()),
        Command::Top(args) => ask(args.run()),
        Command::Peek(args) => ask(args.run()),
        Command::Inspect(args) => ask(args.run()),
        Command::Reset(args) => ask(args.run()),
        Command::Reload(args) => ask(args.run()),
        Command::Import(args) => run_import(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sluice", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Script { script } => {
            let text = match script {
                Script::Decide => store::script::DECIDE,
                Script::Lease => store::script::LEASE,
                Script::Refund => store::script::REFUND,
            };
            print(text)
        }
        Command::Schema => print(&format!("{:#}\n", sluice_filter::config::schema::schema().as_value())),
    }
}

/// A reader that has seen enough (`sluice script | head`) is not a failure.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error.to_string()),
        _ => ExitCode::SUCCESS,
    }
}

fn run_serve(args: &ServeArgs) -> ExitCode {
    let filter = match log_filter() {
        Ok(filter) => filter,
        Err(error) => return fail(&error),
    };
    let traces = match Traces::start() {
        Ok(traces) => traces,
        Err(error) => return fail(&error.to_string()),
    };
    start_logging(filter, args.log_format, traces.as_ref());
    let served = serve_until_stopped(args);
    if let Some(traces) = traces {
        traces.end();
    }
    served
}

/// What `RUST_LOG` says. A slip in it must not pass for silence, or for a level that nobody has asked for.
fn log_filter() -> Result<EnvFilter, String> {
    match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.is_empty() => EnvFilter::builder().parse(&text).map_err(|error| {
            format!("RUST_LOG: {error}; write a level, such as debug, or one for a module: warn,sluice=debug")
        }),
        Err(VarError::NotUnicode(_)) => Err("RUST_LOG: it is not UTF-8".to_owned()),
        Ok(_) | Err(VarError::NotPresent) => Ok(EnvFilter::new("info")),
    }
}

fn start_logging(filter: EnvFilter, format: LogFormat, traces: Option<&Traces>) {
    let lines = tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let lines = lines.with_filter(filter.and(filter_fn(traces::is_log)));
    tracing_subscriber::registry().with(lines).with(traces.map(Traces::layer)).init();
    if let Some(traces) = traces {
        traces.announce();
    }
}

fn serve_until_stopped(args: &ServeArgs) -> ExitCode {
    let file = match ConfigFile::load(&args.config) {
        Ok(file) => file,
        Err(error) => return fail(&error.to_string()),
    };
    match block_on(serve::run(file)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error.to_string()),
        Err(error) => fail(&format!("cannot start the runtime: {error}")),
    }
}

/// Asks a running sidecar, and prints what it says.
fn ask(question: impl Future<Output = Result<String, ClientError>>) -> ExitCode {
    match block_on(question) {
        Ok(Ok(text)) => print(&text),
        Ok(Err(error)) => {
            let code = fail(&error.to_string());
            if matches!(error, ClientError::Url(_) | ClientError::Token { .. }) { ExitCode::from(2) } else { code }
        }
        Err(error) => fail(&format!("cannot start the runtime: {error}")),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // Without waiting for a file system that hangs.
    runtime.shutdown_background();
    Ok(result)
}

fn run_validate(args: &ValidateArgs) -> ExitCode {
    let refuse = |error: &ConfigError| {
        let code = fail(&error.to_string());
        if matches!(error, ConfigError::Read { .. }) { ExitCode::from(2) } else { code }
    };
    let config = match load(&args.config) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    println!("{}: ok, {} policies", args.config.display(), config.policies.len());
    let Some(path) = &args.filter else { return ExitCode::SUCCESS };
    match read_file(path).and_then(|text| config.check_filter(&text, &path.display().to_string())) {
        Ok(checks) => {
            println!("{}: ok, {checks} checks, and every policy they name exists", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn run_import(args: &ImportArgs) -> ExitCode {
    let name = args.file.display().to_string();
    let imported = read_file(&args.file).map_err(ImportError::from).and_then(|text| import::import(&text, &name));
    let Imported { sidecar, filter, notes } = match imported {
        Ok(imported) => imported,
        Err(error) => return fail(&error.to_string()),
    };
    for note in notes {
        eprintln!("{note}");
    }
    match args.only {
        Some(Part::Sidecar) => print(&sidecar),
        Some(Part::Filter) => print(&filter),
        None => print(&format!("{sidecar}---\n{filter}")),
    }
}

fn load(path: &Path) -> Result<Config, ConfigError> {
    Config::parse(&read_file(path)?, &path.display().to_string())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("sluice: {message}");
    ExitCode::FAILURE
}
