# The steps of `cargo xtask lab host`, one a run: sh -eu /host.sh STEP PORT NQN [ARG]...
# The target listens on the machine outside, which QEMU's user network shows as 10.0.2.2; PORT is its TCP port, rdma:PORT of the
# program that is 10.9.0.1 beside the guest's soft-RoCE, or inside:PORT of one on the guest's own soft-RoCE. Any command that fails
# fails the step; what it prints last says what it saw.
set -o pipefail
step=$1 port=$2 nqn=$3
shift 3
case $port in
rdma:*)
    port=${port#rdma:}
    where="-t rdma -a 10.9.0.1 -s $port"
    ;;
inside:*)
    port=${port#inside:}
    where="-t rdma -a 10.9.0.2 -s $port"
    ;;
*) where="-t tcp -a 10.0.2.2 -s $port" ;;
esac

fail() {
    echo "$*" >&2
    exit 1
}

host_id() { # N
    printf '00000000-0000-4000-8000-%012d' "$1"
}

host_nqn() { # N
    echo "nqn.2014-08.org.nvmexpress:uuid:$(host_id "$1")"
}

as_host() { # N
    echo "-q $(host_nqn "$1") -I $(host_id "$1")"
}

controller() { # N: the device of host N's controller
    for c in /sys/class/nvme/nvme*; do
        [ -e "$c/subsysnqn" ] || continue
        if [ "$(cat "$c/subsysnqn")" = "$nqn" ] && [ "$(cat "$c/hostnqn")" = "$(host_nqn "$1")" ]; then
            echo "${c##*/}"
            return
        fi
    done
    fail "host $1 has no controller"
}

await() { # COMMAND...: until it succeeds; a guest on a busy machine is slow
    for _ in $(seq 300); do
        ! "$@" || return 0
        usleep 200000
    done
    return 1
}

is_live() { [ "$(cat "/sys/class/nvme/$1/state")" = live ]; }

live() { # DEVICE
    ! await is_live "$1" || return 0
    fail "$1 is $(cat "/sys/class/nvme/$1/state"), not live"
}

has_block() { # NSID: prints its block device
    for b in /sys/block/nvme*; do
        # nvme0c1n2 is a path, nvme0n2 the namespace
        case ${b##*/} in *c*) continue ;; esac
        if [ -e "$b/nsid" ] && [ "$(cat "$b/nsid")" = "$1" ] && [ -b "/dev/${b##*/}" ]; then
            echo "/dev/${b##*/}"
            return 0
        fi
    done
    return 1
}

block() { # NSID: its block device, which comes a moment after the connection
    await has_block "$1" || fail "no block device of namespace $1"
}

pattern() { # SEED MIB: bytes that differ from MiB to MiB and from seed to seed
    if [ ! -s /run/base ]; then
        gzip -c /usr/lib/x86_64-linux-gnu/libcrypto.so.3 >/run/packed
        dd if=/run/packed of=/run/base bs=1M count=1 status=none
        rm /run/packed
    fi
    [ "$(stat -c %s /run/base)" = 1048576 ] || fail "the pattern's base is too short"
    i=0
    while [ $i -lt "$2" ]; do
        turn=$((($1 * 64 + i) * 4099 % 1048575 + 1))
        dd if=/run/base bs=1M iflag=skip_bytes skip=$turn status=none
        dd if=/run/base bs=1M iflag=count_bytes count=$turn status=none
        i=$((i + 1))
    done
}

walk() { # COMMAND BYTES SIZE...: COMMAND OFFSET LENGTH SIZE over all bytes; a size serves for an eighth, that of $last for the rest
    command=$1 bytes=$2 offset=0
    shift 2
    for size; do
        # an odd number: what follows begins off the usual boundaries
        count=$((bytes / 8 / size))
        [ $count -lt 63 ] || count=63
        [ $count -gt 0 ] || count=1
        length=$((count * size))
        # the world outside waits as long as there is something to read
        echo "$command $offset $size" >&2
        [ $length -le $((bytes - offset)) ] && [ "$size" != "$last" ] || length=$((bytes - offset))
        $command $offset $length "$size"
        offset=$((offset + length))
    done
}

put() { # OFFSET LENGTH SIZE
    dd if=/run/pattern of="$device" bs="$3" iflag=skip_bytes,count_bytes skip="$1" count="$2" \
        oflag=seek_bytes,direct seek="$1" conv=notrunc status=none
}

get() { # OFFSET LENGTH SIZE
    dd if="$device" bs="$3" iflag=skip_bytes,count_bytes,direct skip="$1" count="$2" status=none
}

compare() { # BYTES BLOCK
    last=$2
    walk get "$1" 1048576 262144 135168 65536 16384 12288 8192 "$2" | cmp - /run/pattern
}

data() { # SEED MIB
    for nsid in 1 2; do
        device=$(block $nsid)
        size=$(cat "/sys/block/${device##*/}/queue/logical_block_size")
        [ "$size" = $((nsid == 1 ? 512 : 4096)) ] || fail "namespace $nsid has blocks of $size bytes"
        pattern $(($1 + nsid)) "$2" >/run/pattern
        bytes=$(($2 * 1048576))
        last=1048576
        walk put $bytes "$size" 8192 12288 16384 65536 135168 262144 1048576
        compare $bytes 65536
        # the first blocks one by one
        get 0 65536 "$size" | cmp -n 65536 - /run/pattern
    done
    echo "$2 MiB on each of two namespaces, in 512 bytes to 1 MiB"
}

connect() { # N OPTION...
    host=$1
    shift
    nvme connect $where -n "$nqn" $(as_host "$host") "$@" >/dev/null
    device=$(controller "$host")
    live "$device"
    echo "$device"
}

identify() {
    device=/dev/$(controller 1)
    nvme id-ctrl "$device" >/run/out
    grep -q '^sqes *: 0x66$' /run/out || fail "$(cat /run/out)"
    for nsid in 1 2; do
        nvme id-ns "$device" -n $nsid >/run/out
        grep -q "lbads:$((nsid == 1 ? 9 : 12)) .*in use" /run/out || fail "$(cat /run/out)"
    done
    nvme smart-log "$device" >/run/out
    grep -q '^critical_warning[[:space:]]*: 0$' /run/out || fail "$(cat /run/out)"
    nvme get-feature "$device" -f 7 | grep -q 'Number of Queues'
    nvme get-feature "$device" -f 0xf | grep -q 'Keep Alive Timer'
    echo "Identify, the SMART log and features as they should be"
}

logs() {
    device=/dev/$(controller 1)
    for log in error-log fw-log "effects-log --csi=0" changed-ns-list-log supported-log-pages; do
        nvme ${log%% *} "$device" $(echo "$log" | sed 's/^[^ ]*//') >/run/out 2>&1 || fail "$log: $(cat /run/out)"
    done
    nvme list-ns "$device" | grep -c '^\[' | grep -qx 2
    nvme ns-descs "$device" -n 1 >/dev/null
    nvme show-regs "$device" >/dev/null
    nvme list-subsys | grep -q "NQN=$nqn" || fail "$(nvme list-subsys)"
    echo "error, firmware, effects and other logs, the namespace list, the properties"
}

feature() { # FEATURE SEL [OPTION...]: the value, as nvme prints it
    id=$1 select=$2
    shift 2
    nvme get-feature "$device" -f "$id" -s "$select" "$@" >/run/out 2>&1 || fail "feature $id, select $select: $(cat /run/out)"
    sed -n 's/^get-feature:.*value: *\(0x[0-9a-f]*\).*/\1/p' /run/out
}

features() {
    name=$(controller 1)
    device=/dev/$name
    for id in 1 2 4 5 7 0xa 0xb 0xf; do
        # error recovery is a namespace's own
        of=
        [ $id != 5 ] || of="-n 1"
        for select in 0 1 3; do feature $id $select $of >/run/value; done
    done
    # what is set is current, and with SV saved; a reset makes another association, whose dynamic controller begins anew
    default=$(feature 4 1)
    nvme set-feature "$device" -f 4 --value=0x155 --save >/run/out 2>&1 || fail "$(cat /run/out)"
    [ $(($(feature 4 0))) = $((0x155)) ] && [ $(($(feature 4 2))) = $((0x155)) ] || fail "$(cat /run/out)"
    [ "$(feature 4 1)" = "$default" ] || fail "the default has changed: $(cat /run/out)"
    nvme set-feature "$device" -f 4 --value=0x160 >/dev/null
    [ $(($(feature 4 0))) = $((0x160)) ] && [ $(($(feature 4 2))) = $((0x155)) ] || fail "$(cat /run/out)"
    nvme reset "$device"
    live "$name"
    [ "$(feature 4 0)" = "$default" ] || fail "after a reset: $(cat /run/out)"
    echo "eight features with each SEL, one set, saved, and gone with its controller"
}

supports() { # BIT: of ONCS
    [ $(($(sed -n 's/^oncs *: *//p' /run/id-ctrl) >> $1 & 1)) = 1 ]
}

does() { # WHAT COMMAND...
    what=$1
    shift
    "$@" >/run/out 2>&1 || fail "$what: $(cat /run/out)"
    did="$did $what"
}

commands() { # on the first blocks of namespace 1, passed through the kernel
    device=$(block 1)
    nvme id-ctrl "/dev/$(controller 1)" >/run/id-ctrl
    head -c 4096 /usr/lib/x86_64-linux-gnu/libcrypto.so.3 >/run/one
    head -c 4096 /dev/zero >/run/zero
    did=
    blocks="-s 0 -c 7 -z 4096"
    does write nvme write "$device" $blocks -d /run/one
    does flush nvme flush "$device" -n 1
    rm -f /run/got
    does read nvme read "$device" $blocks -d /run/got
    cmp /run/one /run/got
    if supports 0; then
        does compare nvme compare "$device" $blocks -d /run/one
        ! nvme compare "$device" $blocks -d /run/zero >/run/out 2>&1 || fail "compared with other data"
    fi
    ! supports 7 || does verify nvme verify "$device" -s 0 -c 7
    ! supports 2 || does dsm nvme dsm "$device" -n 1 -d -s 8 -b 8
    if supports 3; then
        does write-zeroes nvme write-zeroes "$device" -s 0 -c 7
        rm -f /run/got
        does read nvme read "$device" $blocks -d /run/got
        cmp /run/zero /run/got
        # and as the kernel itself asks for it
        ! supports 2 || does blkdiscard blkdiscard -o 1048576 -l 1048576 "$device"
    fi
    echo "$did"
}

error() { # one block beyond the end
    device=$(block 1)
    end=$(cat "/sys/block/${device##*/}/size")
    ! nvme read "$device" -s "$end" -c 0 -z 512 -d /run/got >/run/out 2>&1 || fail "a read beyond the end succeeds"
    grep -qi 'LBA Out of Range' /run/out || fail "$(cat /run/out)"
    nvme error-log "/dev/$(controller 1)" -e 1 >/run/out
    grep -qi 'status_field.*LBA Out of Range\|status_field.*0x80' /run/out || fail "$(cat /run/out)"
    echo "a read beyond the end is refused and logged"
}

discovery() { # the persistent discovery controller
    nqn=nqn.2014-08.org.nvmexpress.discovery
    controller 1
}

discovery_persistent() {
    # what udev would be told
    cat >/run/on-event <<'END'
[ -z "${NVME_AEN:-}" ] || echo "$NVME_AEN" >>/run/events
END
    : >/run/events
    uevent sh /run/on-event </dev/null >/dev/null 2>&1 &
    echo $! >/run/uevent
    nvme discover --persistent $where $(as_host 1) >/run/out
    grep -q "^subnqn: *$nqn$" /run/out || fail "$(cat /run/out)"
    name=$(discovery)
    live "$name"
    echo "$name"
}

events() { [ "$(grep -c 0x70f002 /run/events)" -ge "$1" ]; }

log_of_discovery() { # into /run/out, by the connection that is there
    nvme discover --device="$(discovery)" $where $(as_host 1) >/run/out
}

discovery_changed() { # HOW-OFTEN
    await events "$1" || fail "$(wc -l </run/events) events, $1 were to come: $(cat /run/events)"
    log_of_discovery
    echo "event $1 of a discovery log change came"
}

discovery_connect() { # NQN: as nvme-cli's udev rule does upon the event
    grep -q "^subnqn: *$1$" /run/out || fail "$1 is not in the log: $(cat /run/out)"
    nvme connect-all --context=autoconnect --quiet --device="$(discovery)" --transport=tcp --traddr=10.0.2.2 \
        --trsvcid="$port" --host-traddr=none --host-iface=none $(as_host 1) >/dev/null
    for each in "$1" "$nqn"; do
        live "$(nqn=$each && controller 1)"
        nvme disconnect -n "$each" >/dev/null
    done
    echo "$1 was connected to"
}

discovery_gone() { # NQN
    ! grep -q "^subnqn: *$1$" /run/out || fail "$1 is still in the log: $(cat /run/out)"
    kill "$(cat /run/uevent)"
    nvme disconnect -d "$(discovery)" >/dev/null
    echo "the log changed twice and the host was told twice"
}

namespace_comes() { # NSID
    device=$(block "$1")
    [ "$(cat "/sys/block/${device##*/}/size")" = 32768 ] || fail "$device has $(cat "/sys/block/${device##*/}/size") sectors"
    pattern 50 4 >/run/pattern
    last=1048576
    walk put 4194304 4096 65536 1048576
    compare 4194304 65536
    echo "$device"
}

has_no_block() { ! has_block "$1" >/dev/null; }

namespace_goes() { # NSID
    await has_no_block "$1" || fail "$(has_block "$1") is still there"
    has_block 1 >/dev/null
    echo "its block device came, took data, and went"
}

two_hosts() { # SEED MIB: both paths at once
    for policy in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin >"$policy"; done
    data "$@"
}

reset() { # a controller reset under the host's writes
    name=$(controller 1)
    device=$(block 1)
    pattern 40 1 >/run/pattern
    put 0 1048576 4096 &
    nvme reset "/dev/$name"
    wait $! || fail "a write failed over the reset"
    live "$name"
    last=65536
    compare 1048576 65536
    echo "written over the reset, and read back"
}

case $step in
discover)
    nvme discover $where $(as_host 1) >/run/out
    grep -q "^subnqn: *$nqn$" /run/out && grep -q "^trsvcid: *$port$" /run/out || fail "$(cat /run/out)"
    echo "the subsystem's record"
    ;;
discovery-persistent) discovery_persistent ;;
discovery-changed) discovery_changed "$@" ;;
discovery-connect) discovery_connect "$@" ;;
discovery-gone) discovery_gone "$@" ;;
namespace-comes) namespace_comes "$@" ;;
namespace-goes) namespace_goes "$@" ;;
connect) connect "$@" ;;
identify) identify ;;
logs) logs ;;
features) features ;;
commands) commands ;;
error) error ;;
data) data "$@" ;;
two-hosts) two_hosts "$@" ;;
reset) reset ;;
keep-alive) # SECONDS
    name=$(controller 1)
    for second in $(seq "$1"); do
        sleep 1
        echo "$second" >&2
    done
    live "$name"
    nvme id-ctrl "/dev/$name" >/dev/null
    echo "still live after $1 s"
    ;;
connect-all)
    nvme connect-all $where $(as_host 1) >/dev/null
    name=$(controller 1)
    live "$name"
    echo "$name"
    ;;
disconnect)
    nvme disconnect -n "$nqn" >/dev/null
    for c in /sys/class/nvme/nvme*; do
        [ ! -e "$c" ] || fail "${c##*/} is still there"
    done
    echo "no controller is left"
    ;;
*) fail "there is no step $step" ;;
esac
