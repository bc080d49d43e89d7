#!/usr/bin/env bash
# Compares locks: conclave, etcd, ZooKeeper and Redis, each in processes of their own on this machine, all with their
# data on the same disk and fsync on, measured by one load generator in alternating rounds.
#
#   benches/compare.sh DIR [PART...]
#
# DIR is where data, logs and figures go; it must not be in memory. The parts, all of them when none is named:
#
#   cluster   three nodes each of conclave, etcd and ZooKeeper: one client's latency, 64 clients, 64 that share one
#             connection (conclave and etcd), 8 on one name
#   single    one node each of conclave, etcd and Redis (append-only file, fsync always)
#   fsyncs    how often each side calls fsync, counted from outside (perf, or else strace) in runs of their own
#   waiters   10,000 who wait for one name, at conclave and at etcd
#   failover  the leader killed again and again, at conclave, etcd and ZooKeeper
#
# Debian's packages etcd-server, zookeeper and redis-server are used as they are; a system that is not installed is left
# out. CONCLAVE names the binary of conclave; it is built otherwise. From the environment, with what holds otherwise:
#
#   CONCLAVE= ROUNDS=5 RUN_SECONDS=5 KILLS=20 WAITERS=10000 BASE_PORT=23700
set -euo pipefail

ROUNDS=${ROUNDS:-5}
RUN_SECONDS=${RUN_SECONDS:-5}
KILLS=${KILLS:-20}
WAITERS=${WAITERS:-10000}
BASE_PORT=${BASE_PORT:-23700}
CONCLAVE=${CONCLAVE:-}

# ---------------------------------------------------------------------------------------------------------------------
# Processes: what is started here is stopped here, by its id, and nothing else is.

declare -A pid_of=() # node -> process

# Starts a node in the background; under strace, which logs every fsync with its time, where that is how they are counted.
launch() {
  local node=$1
  shift
  local trace=()
  if [[ $counter == strace ]]; then
    # -D keeps the server our own child, the filter in the kernel stops it at these calls only.
    trace=(strace -D -f --seccomp-bpf -qq -ttt -e "trace=$(joined '')" -o "$data/$node.syncs")
  fi
  "${trace[@]}" "$@" >"$results/$node.log" 2>&1 </dev/null &
  pid_of[$node]=$!
}

# The calls that wait for the disk, separated by commas, each with something in front. By pwritev2 conclave writes its log,
# each time with RWF_DSYNC, which is a write and an fdatasync in one.
joined() {
  local call list=
  for call in fsync fdatasync msync sync_file_range pwritev2; do
    list+=",$1$call"
  done
  echo "${list#,}"
}

stop_all() {
  local node pid
  for node in "${!pid_of[@]}"; do
    kill -TERM "${pid_of[$node]}" 2>/dev/null || true
  done
  for node in "${!pid_of[@]}"; do
    pid=${pid_of[$node]}
    for _ in {1..100}; do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  pid_of=()
}

clean_up() {
  stop_all
  rm -rf "$data"
}

# ---------------------------------------------------------------------------------------------------------------------
# Systems: for each, whether it is here, how node N of three is started, how one alone is, and where clients find it.

port() { echo $((BASE_PORT + $1)); }
address() { echo "127.0.0.1:$(port "$1")"; }
three() { echo "$(address "$(($1 + 1))"),$(address "$(($1 + 2))"),$(address "$(($1 + 3))")"; }

# ZooKeeper, and what it logs through.
zookeeper_jars=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar

has() {
  case $1 in
    conclave) [[ -n $CONCLAVE ]] ;;
    etcd) command -v etcd >/dev/null ;;
    zookeeper) command -v java >/dev/null && [[ -e /usr/share/java/zookeeper.jar ]] ;;
    redis) command -v redis-server >/dev/null ;;
  esac
}

# The endpoints of three nodes.
endpoints() {
  case $1 in
    conclave) three 0 ;;
    etcd) three 10 ;;
    zookeeper) three 20 ;;
  esac
}

# The endpoint of one node alone.
endpoint() {
  case $1 in
    conclave) address 4 ;;
    etcd) address 14 ;;
    redis) address 24 ;;
  esac
}

# Prints the command of node N of three, one word a line, and prepares what it needs.
node_command() {
  local system=$1 n=$2
  local at="$data/$system-$n"
  mkdir -p "$at"
  case $system in
    conclave)
      printf '%s\n' "$CONCLAVE" serve --id "$n" --data "$at" \
        --cluster "1=$(address 1),2=$(address 2),3=$(address 3)"
      ;;
    etcd)
      printf '%s\n' etcd --name "n$n" --data-dir "$at" \
        --listen-client-urls "http://$(address $((10 + n)))" --advertise-client-urls "http://$(address $((10 + n)))" \
        --listen-peer-urls "http://$(address $((15 + n)))" --initial-advertise-peer-urls "http://$(address $((15 + n)))" \
        --initial-cluster "n1=http://$(address 16),n2=http://$(address 17),n3=http://$(address 18)"
      ;;
    zookeeper)
      zookeeper_files "$at" "$n"
      printf '%s\n' java -Xmx1000m -cp "$at:$zookeeper_jars" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$at/zoo.cfg"
      ;;
  esac
}

zookeeper_files() {
  local at=$1 n=$2 peer
  echo "$n" >"$at/myid"
  {
    printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 "dataDir=$at" maxClientCnxns=0 admin.enableServer=false
    printf '%s\n' clientPortAddress=127.0.0.1 "clientPort=$(port $((20 + n)))"
    for peer in 1 2 3; do
      echo "server.$peer=127.0.0.1:$(port $((30 + peer))):$(port $((40 + peer)))"
    done
  } >"$at/zoo.cfg"
  printf '%s\n' 'log4j.rootLogger=WARN, out' log4j.appender.out=org.apache.log4j.ConsoleAppender \
    log4j.appender.out.layout=org.apache.log4j.PatternLayout 'log4j.appender.out.layout.ConversionPattern=%d %p %m%n' \
    >"$at/log4j.properties"
}

single_command() {
  local system=$1
  local at="$data/$system-alone"
  mkdir -p "$at"
  case $system in
    conclave) printf '%s\n' "$CONCLAVE" serve --listen "$(endpoint conclave)" --data "$at" ;;
    etcd)
      printf '%s\n' etcd --name alone --data-dir "$at" \
        --listen-client-urls "http://$(endpoint etcd)" --advertise-client-urls "http://$(endpoint etcd)" \
        --listen-peer-urls "http://$(address 19)" --initial-advertise-peer-urls "http://$(address 19)" \
        --initial-cluster "alone=http://$(address 19)"
      ;;
    redis)
      printf '%s\n' redis-server --bind 127.0.0.1 --port "$(port 24)" --dir "$at" \
        --appendonly yes --appendfsync always --save ''
      ;;
  esac
}

start_three() {
  local system=$1 n command
  for n in 1 2 3; do
    mapfile -t command < <(node_command "$system" "$n")
    launch "$system-$n" "${command[@]}"
  done
  "$CONCLAVE" bench leader --target "$system=$(endpoints "$system")" --patience 60 >/dev/null
}

start_alone() {
  local system=$1 command
  mapfile -t command < <(single_command "$system")
  launch "$system-alone" "${command[@]}"
  "$CONCLAVE" bench leader --target "$system=$(endpoint "$system")" --patience 60 >/dev/null
}

# ---------------------------------------------------------------------------------------------------------------------
# Parts.

# Systems whose clients can share a connection, as the parts of one program do; it goes to the leader then.
shares() { [[ $1 == conclave || $1 == etcd ]]; }

say() { printf '\n## %s\n\n' "$*"; }

# Runs the generator, shows how, and keeps its figures. What fails is shown, and the rest goes on.
measure() {
  local file=$1
  shift
  echo "\$ conclave bench $*"
  if ! "$CONCLAVE" bench "$@" --json "$results/$file.json" 2>>"$results/progress.log"; then
    tail -n 1 "$results/progress.log"
    failed=yes
  fi
  echo
}

part_cluster() {
  say "Three nodes each"
  local system targets=() sharing=()
  for system in conclave etcd zookeeper; do
    has "$system" || continue
    start_three "$system"
    targets+=(--target "$system=$(endpoints "$system")")
    if shares "$system"; then sharing+=(--target "$system=$(leader "$system")"); fi
  done
  local rounds=(--seconds "$RUN_SECONDS" --rounds "$ROUNDS")
  measure cluster-latency latency "${rounds[@]}" "${targets[@]}"
  targets+=(--target "conclave-dropped=$(endpoints conclave)")
  sharing+=(--target "conclave-dropped=$(leader conclave)")
  measure cluster-uncontended uncontended --clients 64 "${rounds[@]}" "${targets[@]}"
  measure cluster-shared uncontended --clients 64 --connections 1 "${rounds[@]}" "${sharing[@]}"
  measure cluster-handoff handoff --clients 8 "${rounds[@]}" "${targets[@]}"
  stop_all
}

part_single() {
  say "One node each"
  local system targets=() sharing=()
  for system in conclave etcd redis; do
    has "$system" || continue
    start_alone "$system"
    targets+=(--target "$system=$(endpoint "$system")")
    if shares "$system"; then sharing+=(--target "$system=$(endpoint "$system")"); fi
  done
  local rounds=(--seconds "$RUN_SECONDS" --rounds "$ROUNDS")
  measure single-latency latency "${rounds[@]}" "${targets[@]}"
  targets+=(--target "conclave-dropped=$(endpoint conclave)")
  sharing+=(--target "conclave-dropped=$(endpoint conclave)")
  measure single-uncontended uncontended --clients 64 "${rounds[@]}" "${targets[@]}"
  measure single-shared uncontended --clients 64 --connections 1 "${rounds[@]}" "${sharing[@]}"
  stop_all
}

part_fsyncs() {
  counter=$(find_counter)
  say "fsyncs, counted from outside by $counter"
  local system
  for system in conclave etcd zookeeper; do
    has "$system" || continue
    start_three "$system"
    count_in "3 $system" "$system" "$(endpoints "$system")" uncontended 64
    count_in "3 $system" "$system" "$(endpoints "$system")" handoff 8
    stop_all
  done
  for system in conclave etcd redis; do
    has "$system" || continue
    start_alone "$system"
    count_in "1 $system" "$system" "$(endpoint "$system")" uncontended 64
    stop_all
  done
  counter=
}

# perf counts without stopping anybody, but needs a kernel and rights that allow it; strace slows what it counts, so that
# only its fsyncs per cycle mean something.
find_counter() {
  if perf stat -e "$(joined syscalls:sys_enter_)" true >/dev/null 2>&1; then
    echo perf
  elif command -v strace >/dev/null; then
    echo strace
  else
    echo "neither perf nor strace, which are not here"
  fi
}

# A run of its own, of which the measured time counts.
count_in() {
  local label=$1 system=$2 where=$3 load=$4 clients=$5
  local file="$results/fsyncs-${label// /-}-$load.json"
  case $counter in
    perf) start_perf || return 0 ;;
    strace) ;;
    *) return ;;
  esac
  "$CONCLAVE" bench "$load" --clients "$clients" --warmup 3 --seconds 3 --rounds 1 --target "$system=$where" --json "$file" \
    >/dev/null 2>>"$results/progress.log"
  local started cycles
  started=$(figure started_unix_ms "$file")
  cycles=$(figure cycles "$file")
  "calls_by_$counter" | awk -v from="$started" -v cycles="$cycles" -v label="$label, $load, $clients clients" '
    $1 >= from && $1 < from + 3000 { n += $2 }
    END { printf "%s: %.0f fsyncs/s, %.0f cycles/s, %.3f fsyncs per cycle (over all nodes)\n",
                 label, n / 3, cycles / 3, cycles ? n / cycles : 0 }'
}

# Counts the calls of all nodes ten times a second. perf gives up when a thread ends just as it is looked at, as those of
# a Java machine do: then once more.
start_perf() {
  local pids
  pids=$(IFS=, && echo "${pid_of[*]}")
  for _ in {1..10}; do
    perf_began=$(date +%s%3N)
    perf stat -x, -I 100 -o "$data/perf" -e "$(joined syscalls:sys_enter_)" -p "$pids" >/dev/null 2>&1 &
    pid_of[perf]=$!
    sleep 0.5
    kill -0 "${pid_of[perf]}" 2>/dev/null && return
    unset 'pid_of[perf]'
  done
  echo "$label, $load: perf does not start"
  return 1
}

# The calls, as lines of a moment in milliseconds since 1970 and a number.
calls_by_perf() {
  kill -INT "${pid_of[perf]}"
  wait "${pid_of[perf]}" 2>/dev/null || true
  unset 'pid_of[perf]'
  # A line tells what happened in the tenth of a second before it.
  awk -F, -v began="$perf_began" '$1 + 0 > 0 { printf "%.0f %d\n", began + $1 * 1000 - 50, $2 }' "$data/perf"
}

calls_by_strace() {
  # What strace has in hand is written within a moment.
  sleep 1
  sed -nE 's/^[0-9]+ +([0-9]+)\.([0-9]{3})[0-9]* (fsync|fdatasync|msync|sync_file_range|pwritev2)\(.*/\1\2 1/p' "$data"/*.syncs
}

# The first number under a name in a file of figures.
figure() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p;" "$2" | head -n 1; }

part_waiters() {
  say "Waiters"
  local system leader
  for system in conclave etcd; do
    has "$system" || continue
    start_three "$system"
    leader=$(leader "$system")
    measure "waiters-$system" waiters --waiters "$WAITERS" --target "$system=$(endpoints "$system")" \
      --pid "${pid_of[$system-$((${leader##*:} - $(first_port "$system") + 1))]}"
    stop_all
  done
}

# Where the leader of three nodes listens.
leader() { "$CONCLAVE" bench leader --target "$1=$(endpoints "$1")"; }

first_port() {
  local first
  first=$(endpoints "$1")
  first=${first%%,*}
  echo "${first##*:}"
}

part_failover() {
  say "The leader killed, and silent"
  local system
  for system in conclave etcd zookeeper; do
    has "$system" || continue
    plan "$system" >"$results/$system.toml"
    measure "failover-$system" failover --cluster "$results/$system.toml" --kills "$KILLS"
    plan "$system" >"$results/$system.toml"
    measure "silence-$system" failover --cluster "$results/$system.toml" --kills "$KILLS" --leader silent
  done
}

# How the generator starts and restarts the nodes by itself.
plan() {
  local system=$1 n command word
  # Old data would come back to life, with its sessions.
  rm -rf "${data:?}/$system"-*
  echo "kind = \"$system\""
  for n in 1 2 3; do
    printf '\n[[nodes]]\nendpoint = "127.0.0.1:%s"\nlog = "%s"\n' \
      "$(($(first_port "$system") + n - 1))" "$results/failover-$system-$n.log"
    mapfile -t command < <(node_command "$system" "$n")
    printf 'command = ['
    for word in "${command[@]}"; do
      printf '"%s", ' "$word"
    done
    printf ']\n'
  done
}

# ---------------------------------------------------------------------------------------------------------------------

main() {
  local directory=${1:-}
  [[ -n $directory ]] || { sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//' && exit 2; }
  shift
  local parts=("$@")
  [[ ${#parts[@]} -gt 0 ]] || parts=(cluster single fsyncs waiters failover)
  local part
  for part in "${parts[@]}"; do
    declare -F "part_$part" >/dev/null || { echo "there is no part \"$part\"" >&2 && exit 2; }
  done

  mkdir -p "$directory"
  directory=$(realpath "$directory")
  local disk
  disk=$(stat -f -c %T "$directory")
  case $disk in
    tmpfs | ramfs) echo "$directory is in memory ($disk): fsync would cost nothing there" >&2 && exit 2 ;;
  esac
  if [[ -z $CONCLAVE ]]; then
    cargo build --release --quiet -p conclave-cli
    CONCLAVE=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/conclave
  fi

  results="$directory/figures"
  mkdir -p "$results"
  data=$(mktemp -d "$directory/data.XXXXXX")
  counter=
  failed=
  trap clean_up EXIT

  date -u '+%Y-%m-%d %H:%M UTC'
  echo "$(nproc) cores, $(uname -sr), data on $disk"
  for part in "${parts[@]}"; do
    "part_$part"
  done
  [[ -z $failed ]]
}

main "$@"
