//! What of the benchmark needs no clock: how its figures are read, checked and reckoned. `make bench` runs the rest.

#![allow(dead_code, clippy::cast_precision_loss, reason = "the rest of the benchmark is not here")]

#[path = "../bench/counters.rs"]
mod counters;
#[path = "../bench/figures.rs"]
mod figures;
#[path = "../bench/rows.rs"]
mod rows;
#[path = "../bench/snapshot.rs"]
mod snapshot;
#[path = "../bench/wrk.rs"]
mod wrk;

use crate::support;

mod counters_tests {
    use super::counters::{Commands, cpu_time, stat_ticks};

    #[test]
    fn a_program_may_be_called_anything() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 110 22 5 6 20 0 1 0 99 1 1";
        assert_eq!(stat_ticks(line), Some(132));
        assert_eq!(stat_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_used_time() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = cpu_time(pid).unwrap();
        while cpu_time(pid).unwrap() == before {
            std::hint::black_box((0..1000).sum::<u64>());
        }
        assert!(cpu_time(i32::MAX).is_err());
    }

    #[test]
    fn commands_are_counted_but_looks_are_not() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=10,usec=45,usec_per_call=4.50,rejected_calls=0\r\n\
            cmdstat_set:calls=20,usec=7,usec_per_call=0.35\r\ncmdstat_info:calls=3,usec=100,usec_per_call=33\r\n\
            cmdstat_client|setinfo:calls=2,usec=1,usec_per_call=0.5\r\n";
        let commands = Commands::parse(info);
        assert_eq!((commands.calls("evalsha"), commands.calls("get")), (10, 0));
        assert!((commands.microseconds("evalsha") - 45.0).abs() < 1e-9);
        assert_eq!(commands.work(), 30);
    }
}

mod figures_tests {
    use super::figures::{Figure, Figures, median, medians, ratios};

    fn run(rate: f64, callouts: f64) -> Figures {
        Figures::from([(Figure::RequestsPerSecond, rate), (Figure::Callouts, callouts)])
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!(near(median([3.0, 1.0, 200.0]), 3.0));
        assert!(near(median([4.0, 1.0]), 2.5));
        assert!(near(median([7.0]), 7.0));
        assert!(median([]).is_nan());
    }

    #[test]
    fn each_figure_has_its_own_median_and_ratio() {
        let of_all = medians(&[run(1.0, 9.0), run(2.0, 8.0), run(9.0, 1.0)]);
        assert!(near(of_all[&Figure::RequestsPerSecond], 2.0) && near(of_all[&Figure::Callouts], 8.0));
        let ratios = ratios(&run(30.0, 0.5), &run(60.0, 0.0));
        assert!(near(ratios[&Figure::RequestsPerSecond], 0.5));
        assert!(!ratios.contains_key(&Figure::Callouts), "there is no share of nothing");
    }
}

mod snapshot_tests {
    use super::rows::Setup;
    use super::snapshot::{Spent, verify};
    use super::wrk::Load;

    fn load(not_2xx: u64) -> Load {
        Load { requests: 100, duration_us: 1_000_000, p50_us: 1, p99_us: 2, not_2xx, broken: 0 }
    }

    fn spent(stats: &[(&str, u64)]) -> Spent {
        Spent { stats: stats.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(), ..Spent::default() }
    }

    const ALLOWED: [(&str, u64); 2] = [("http.ingress.downstream_rq_2xx", 101), ("wasmcustom.sluice_allowed", 101)];
    const DENIED: [(&str, u64); 2] = [("http.ingress.downstream_rq_4xx", 101), ("wasmcustom.sluice_denied", 101)];

    #[test]
    fn what_a_row_promises_is_what_it_accepts() {
        assert_eq!(verify(Setup::TokenBucket, 1, &load(0), &spent(&ALLOWED)), Ok(()));
        assert_eq!(verify(Setup::Denied, 1, &load(100), &spent(&DENIED)), Ok(()));
        assert_eq!(verify(Setup::NoRule, 1, &load(0), &spent(&ALLOWED[..1])), Ok(()));
        assert!(verify(Setup::NoRule, 1, &load(0), &spent(&ALLOWED)).is_err(), "a rule matched");
        assert!(verify(Setup::TokenBucket, 1, &load(0), &spent(&ALLOWED[..1])).is_err(), "the plugin was not asked");
        assert!(verify(Setup::TokenBucket, 1, &load(1), &spent(&ALLOWED)).is_err(), "one was denied");
        assert!(verify(Setup::TokenBucket, 0, &load(0), &spent(&ALLOWED)).is_err(), "there are more than were asked");
        assert!(verify(Setup::Denied, 1, &load(99), &spent(&DENIED)).is_err(), "one was allowed");
        let nothing = Load { requests: 0, ..load(0) };
        assert!(verify(Setup::NoFilter, 1, &nothing, &spent(&[])).is_err(), "nothing was measured");
    }

    #[test]
    fn an_error_is_never_a_figure() {
        for name in [
            "wasmcustom.sluice_failed_open",
            "wasmcustom.sluice_failed_closed",
            "wasmcustom.sluice_callouts_failed",
            "wasm.sluice.vm_reload_success",
            "http.ingress.downstream_rq_5xx",
            "http.ingress.downstream_rq_4xx",
            "wasmcustom.sluice_denied",
        ] {
            let stats = [&ALLOWED[..], &[(name, 1)]].concat();
            assert!(verify(Setup::TokenBucket, 1, &load(0), &spent(&stats)).is_err(), "{name}");
        }
        let broken = Load { broken: 1, ..load(0) };
        assert!(verify(Setup::TokenBucket, 1, &broken, &spent(&ALLOWED)).is_err());
    }
}

mod wrk_tests {
    use super::wrk::{Load, parse};

    #[test]
    fn the_figures_are_found_among_what_wrk_says() {
        let output = "Running 1s test @ http://127.0.0.1:1\n  1 threads and 1 connections\nRequests/sec:   10.0\n\
            {\"requests\":20,\"duration_us\":2000000,\"p50_us\":60,\"p99_us\":90,\"not_2xx\":3,\"broken\":1}\n";
        let load = parse(output).unwrap();
        let wanted = Load { requests: 20, duration_us: 2_000_000, p50_us: 60, p99_us: 90, not_2xx: 3, broken: 1 };
        assert_eq!(load, wanted);
        assert!((load.per_second() - 10.0).abs() < 1e-9);
        assert!(parse("unable to connect").unwrap_err().contains("unable to connect"));
        assert!(parse("{\"requests\":20}").is_err());
    }
}
