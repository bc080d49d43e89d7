//! A protocol that is one of several, chosen by name when a process starts.
//!
//! Values hash, compare and print like the value inside, and messages are drawn as it draws them.

/// Defines a value of any algorithm of a list: it hashes and prints like the value inside.
macro_rules! either {
    ($(#[$doc:meta])* $name:ident: $($algorithm:ident => $type:ty),+ $(,)?) => {
        $(#[$doc])*
        #[allow(clippy::large_enum_variant, reason = "the usual algorithm is not boxed")]
        pub enum $name {
            $(#[doc = concat!("Of [`", stringify!($algorithm), "`].")] $algorithm($type),)+
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                match self { $(Self::$algorithm(value) => value.hash(state),)+ }
            }
        }

        impl Debug for $name {
            fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
                match self { $(Self::$algorithm(value) => value.fmt(f),)+ }
            }
        }
    };
}

/// Defines a protocol that is any algorithm of a list, and everything that belongs to it.
///
/// All of them are asked and tell the same. What is generic over protocols is then compiled once for the list.
macro_rules! any {
    (
        $any:ident, $config:ident, $message:ident, $timer:ident, $durable:ident,
        asked: $request:ty, told: $event:ty, foreign: $foreign:literal,
        $($algorithm:ident => $state:ty),+ $(,)?
    ) => {
        either! {
            /// A process that runs any of them.
            #[derive(Clone, PartialEq, Eq)]
            $any: $($algorithm => $state),+
        }

        either! {
            /// The settings of any of them.
            #[derive(Clone, PartialEq, Eq)]
            $config: $($algorithm => <$algorithm as Protocol>::Config),+
        }

        either! {
            /// A message of any of them.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            $message: $($algorithm => <$algorithm as Protocol>::Message),+
        }

        either! {
            /// A timer of any of them.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
            $timer: $($algorithm => <$algorithm as Protocol>::Timer),+
        }

        either! {
            /// What a process that runs any of them saves.
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            $durable: $($algorithm => <$algorithm as Protocol>::Durable),+
        }

        impl Message for $message {
            fn kind(&self) -> &'static str {
                match self { $(Self::$algorithm(message) => message.kind(),)+ }
            }

            fn is_overhead(&self) -> bool {
                match self { $(Self::$algorithm(message) => message.is_overhead(),)+ }
            }

            fn envelopes(&self) -> u32 {
                1 + match self { $(Self::$algorithm(message) => message.envelopes(),)+ }
            }

            fn postmark(&self) -> String {
                match self { $(Self::$algorithm(message) => message.postmark(),)+ }
            }

            fn visit_counters(
                &mut self,
                from: NodeId,
                members: &Members,
                visit: &mut dyn FnMut(Counter<'_>),
            ) {
                match self { $(Self::$algorithm(message) => message.visit_counters(from, members, visit),)+ }
            }
        }

        impl Protocol for $any {
            type Config = $config;
            type Message = $message;
            type Request = $request;
            type Event = $event;
            type Timer = $timer;
            type Durable = $durable;

            fn boot(boot: Boot<'_, Self>) -> Self {
                let Boot { id, members, config, timing, life, saved } = boot;
                match config {
                    $($config::$algorithm(config) => {
                        // What another algorithm has saved means nothing to this one.
                        let saved = match saved {
                            Some($durable::$algorithm(saved)) => Some(saved),
                            _ => None,
                        };
                        let boot = Boot { id, members, config, timing, life, saved };
                        Self::$algorithm($algorithm::boot(boot).into())
                    })+
                }
            }

            fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
                let out = erased(out);
                let now = out.now();
                match self {
                    $(Self::$algorithm(algorithm) => {
                        let input = match input {
                            Input::Start => Input::Start,
                            Input::Receive { from, message: $message::$algorithm(message) } => {
                                Input::Receive { from, message }
                            }
                            Input::Receive { from, .. } => {
                                return out.push(Effect::Reject { from, why: $foreign });
                            }
                            Input::Expire($timer::$algorithm(timer)) => Input::Expire(timer),
                            // No driver gives back a timer that was not armed.
                            Input::Expire(_) => return,
                            Input::Request(request) => Input::Request(request),
                            Input::PeerDown { peer, life } => Input::PeerDown { peer, life },
                            Input::PeerUp { peer, life } => Input::PeerUp { peer, life },
                        };
                        let lift = |effect: Effect<$algorithm>| out.push(match effect {
                            Effect::Save(saved) => Effect::Save($durable::$algorithm(saved)),
                            Effect::Send { to, message } => {
                                Effect::Send { to, message: $message::$algorithm(message) }
                            }
                            Effect::Arm { timer, after } => {
                                Effect::Arm { timer: $timer::$algorithm(timer), after }
                            }
                            Effect::Disarm(timer) => Effect::Disarm($timer::$algorithm(timer)),
                            Effect::Emit(event) => Effect::Emit(event),
                            Effect::Reject { from, why } => Effect::Reject { from, why },
                        });
                        algorithm.handle(input, &mut erased(&mut Through::new(now, lift)));
                    })+
                }
            }

            fn phase(&self) -> Phase {
                match self { $(Self::$algorithm(algorithm) => algorithm.phase(),)+ }
            }

            fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
                match self { $(Self::$algorithm(algorithm) => algorithm.visit_counters(visit),)+ }
            }

            fn assert_invariants(&self) {
                match self { $(Self::$algorithm(algorithm) => algorithm.assert_invariants(),)+ }
            }
        }
    };
}
