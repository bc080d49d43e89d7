//! Commands, put into messages of a size that nodes take.

use conclave_wire::v1;
use prost::Message as _;

use crate::mutant::{self, Mutant};

/// A message has no more bytes than this, unless one command alone has: nodes refuse much larger ones, and would refuse
/// them again and again.
const MESSAGE_BYTES: usize = 256 * 1024;

/// Puts commands into messages, in their order.
pub fn parcels(commands: Vec<v1::Command>) -> Vec<v1::ToServer> {
    let mut parcels: Vec<v1::ToServer> = Vec::new();
    let mut room = 0;
    for command in commands {
        let bytes = command.encoded_len();
        match parcels.last_mut() {
            Some(parcel) if bytes <= room || mutant::is(Mutant::SendsAllAtOnce) => {
                parcel.commands.push(command);
                room = room.saturating_sub(bytes);
            }
            _ => {
                parcels.push(v1::ToServer { commands: vec![command] });
                room = MESSAGE_BYTES.saturating_sub(bytes);
            }
        }
    }
    parcels
}

#[cfg(test)]
mod tests {
    use conclave_wire::v1::command::Act;

    use super::*;

    fn command(request: u64, bytes: usize) -> v1::Command {
        let act = Act::Proclaim(v1::Proclaim { token: 1, value: vec![0; bytes].into() });
        v1::Command { session: 1, request, act: Some(act), ..v1::Command::default() }
    }

    #[test]
    fn large_commands_go_in_several_messages_and_in_order() {
        let sizes = [10, 100_000, 100_000, 100_000, 500_000, 10, 10];
        let commands: Vec<v1::Command> =
            (1..).zip(sizes).map(|(request, bytes)| command(request, bytes)).collect();
        let parcels = parcels(commands.clone());
        let counts: Vec<usize> = parcels.iter().map(|parcel| parcel.commands.len()).collect();
        assert_eq!(counts, [3, 1, 1, 2]);
        let together: Vec<v1::Command> = parcels.into_iter().flat_map(|parcel| parcel.commands).collect();
        assert_eq!(together, commands);
    }

    /// The same with a mutant, in a process of its own.
    #[test]
    fn that_messages_are_split_is_tested() {
        let test = "parcel::tests::large_commands_go_in_several_messages_and_in_order";
        let mut command = std::process::Command::new(std::env::current_exe().expect("it has a name"));
        command.args(["--exact", test]).env("CONCLAVE_CLIENT_MUTANT", "SendsAllAtOnce");
        let said = command.output().expect("it runs").stdout;
        assert!(String::from_utf8_lossy(&said).contains("1 failed"), "SendsAllAtOnce is not caught");
    }

    #[test]
    fn nothing_makes_no_message() {
        assert_eq!(parcels(Vec::new()), []);
    }
}
