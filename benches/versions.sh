#!/usr/bin/env bash
# Compares two binaries of conclave: is the new one as fast as the old one?
#
#   benches/versions.sh OLD NEW DIR [ROUNDS [SECONDS]]
#
# Both run side by side, three nodes and one node each, with their data in DIR, which must not be in memory. Each binary is
# driven by its own load generator, since two versions need not speak the same protocol. Old and new are measured right after
# each other, in turns; whoever is not measured is stopped (SIGSTOP), so that it takes no processor time. One line per run is
# written to DIR/rows.txt; at the end, medians and their ratio. Needs jq. Ports 24101 to 24210 of the loopback are used.
set -euo pipefail

OLD=$1 NEW=$2 DIR=$3 ROUNDS=${4:-9} SECONDS_EACH=${5:-2}
mkdir -p "$DIR"
declare -A nodes targets binary=([old]=$OLD [new]=$NEW)
all=()
trap 'kill -CONT "${all[@]}"; kill "${all[@]}"; wait' EXIT

start() { # version, size, arguments of serve...
    local version=$1 size=$2
    shift 2
    "${binary[$version]}" serve "$@" >>"$DIR/$version-$size.log" 2>&1 </dev/null &
    nodes[$version-$size]+=" $!"
    all+=($!)
}

base=24100
for version in old new; do
    a=127.0.0.1:$((base + 1)) b=127.0.0.1:$((base + 2)) c=127.0.0.1:$((base + 3)) alone=127.0.0.1:$((base + 10))
    for id in 1 2 3; do
        start $version three --id $id --cluster "1=$a,2=$b,3=$c" --data "$DIR/$version-$id"
    done
    start $version one --listen $alone --data "$DIR/$version-alone"
    targets[$version-three]=$a,$b,$c targets[$version-one]=$alone
    base=$((base + 100))
done
sleep 4

: >"$DIR/rows.txt"
measure() { # name, size, arguments of bench...; both versions, the order given by the round
    local name=$1 size=$2 order="old new" version
    shift 2
    ((round % 2)) || order="new old"
    for version in $order; do
        kill -STOP "${all[@]}"
        # shellcheck disable=SC2086
        kill -CONT ${nodes[$version-$size]}
        sleep 1.2 # a cluster that was stopped elects a leader first
        "${binary[$version]}" bench "$@" --target "conclave=${targets[$version-$size]}" \
            --rounds 1 --seconds "$SECONDS_EACH" --json "$DIR/run.json" >"$DIR/run.txt" 2>&1 ||
            { cat "$DIR/run.txt" >&2; exit 1; }
        echo "$name $version $(jq -r '.runs[0].per_second' "$DIR/run.json")" >>"$DIR/rows.txt"
    done
}

for round in $(seq "$ROUNDS"); do
    measure three-64 three uncontended --clients 64
    measure three-64-shared three uncontended --clients 64 --connections 1
    measure three-1 three uncontended --clients 1
    measure three-handoff-8 three handoff --clients 8
    measure one-64 one uncontended --clients 64
    measure one-64-shared one uncontended --clients 64 --connections 1
    measure one-1 one uncontended --clients 1
    echo "round $round of $ROUNDS" >&2
done

median() { # name, version
    awk -v name="$1" -v version="$2" '$1 == name && $2 == version {print $3}' "$DIR/rows.txt" | sort -g |
        awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'
}
printf '%-18s %10s %10s %6s\n' run old/s new/s ratio
for name in $(awk '!seen[$1]++ {print $1}' "$DIR/rows.txt"); do
    old=$(median "$name" old) new=$(median "$name" new)
    printf '%-18s %10.0f %10.0f %6.2f\n' "$name" "$old" "$new" "$(jq -n "$new / $old")"
done
