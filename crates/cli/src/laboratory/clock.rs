//! `conclave clock`: the clock of this machine beside others, by NTP.

use std::net::{SocketAddr, ToSocketAddrs as _};

use conclave_ntp::{Measured, Options, Server, ServerOptions, query};
use serde_json::json;

use super::args::{ClockArgs, ClockCommand, QueryArgs, ServeArgs};
use super::output;
use crate::failure::{Failure, Verdict};

/// Does what `conclave clock` asks for.
pub fn run(args: &ClockArgs) -> Result<Verdict, Failure> {
    match &args.command {
        ClockCommand::Query(args) => ask(args),
        ClockCommand::Serve(args) => serve(args),
    }
}

fn ask(args: &QueryArgs) -> Result<Verdict, Failure> {
    let server = address(&args.server)?;
    let measured = query(server, &Options::new(args.samples, args.timeout)).map_err(Failure::new)?;
    output::show(&if args.json { json_text(server, &measured) } else { text(server, &measured) })?;
    Ok(Verdict::Held)
}

/// The first address of a host.
fn address(server: &str) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| Failure::new(format!("'{server}' is no server: {why}"));
    let has_port = server.parse::<SocketAddr>().is_ok()
        || server.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':'));
    let found = match has_port {
        true => server.to_socket_addrs(),
        false => (server, 123).to_socket_addrs(),
    };
    let mut found = found.map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("it has no address".into()))
}

fn text(server: SocketAddr, measured: &Measured) -> String {
    let Measured { best, dispersion, answered, asked } = measured;
    format!(
        "server         {server}, stratum {}\noffset         {} ± {}\ndelay          {}\ndispersion     {}\n\
         root distance  {}\nanswers        {answered} of {asked}\n",
        best.stratum,
        signed_ms(best.offset),
        ms(best.bound()),
        ms(best.delay),
        ms(i64::try_from(*dispersion).unwrap_or(i64::MAX)),
        ms(i64::try_from(best.root_distance).unwrap_or(i64::MAX)),
    )
}

fn json_text(server: SocketAddr, measured: &Measured) -> String {
    let Measured { best, dispersion, answered, asked } = measured;
    let ms = |nanos: f64| nanos / 1e6;
    let report = json!({
        "server": server.to_string(),
        "stratum": best.stratum,
        "offset": ms(best.offset as f64),
        "bound": ms(best.bound() as f64),
        "delay": ms(best.delay as f64),
        "dispersion": ms(*dispersion as f64),
        "root_distance": ms(best.root_distance as f64),
        "answered": answered,
        "asked": asked,
    });
    format!("{report}\n")
}

/// Nanoseconds in milliseconds, to a microsecond.
fn ms(nanos: i64) -> String {
    format!("{:.3} ms", nanos as f64 / 1e6)
}

fn signed_ms(nanos: i64) -> String {
    format!("{:+.3} ms", nanos as f64 / 1e6)
}

fn serve(args: &ServeArgs) -> Result<Verdict, Failure> {
    let options = ServerOptions { offset: args.offset, ..ServerOptions::default() };
    let cannot = |error: std::io::Error| Failure::new(format!("cannot listen on {}: {error}", args.listen));
    let server = Server::bind(args.listen, options).map_err(cannot)?;
    let address = server.address().map_err(cannot)?;
    output::show(&format!("listening on {address}; Ctrl-C ends it\n"))?;
    server.run().map_err(|error| Failure::new(format!("nothing can be received any more: {error}")))?;
    Ok(Verdict::Held)
}
