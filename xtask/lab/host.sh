# The steps of `cargo xtask lab host`, one a run: sh -eu /host.sh STEP PORT NQN [ARG]...
# The target listens on the machine outside, which QEMU's user network shows as 10.0.2.2. Any command that fails fails the
# step; what it prints last says what it saw.
set -o pipefail
step=$1 port=$2 nqn=$3
shift 3
where="-t tcp -a 10.0.2.2 -s $port"

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

live() { # DEVICE
    for _ in $(seq 50); do
        [ "$(cat "/sys/class/nvme/$1/state")" != live ] || return 0
        usleep 200000
    done
    fail "$1 is $(cat "/sys/class/nvme/$1/state"), not live"
}

block() { # NSID: its block device, which comes a moment after the connection
    for _ in $(seq 50); do
        for b in /sys/block/nvme*; do
            # nvme0c1n2 is a path, nvme0n2 the namespace
            case ${b##*/} in *c*) continue ;; esac
            if [ -e "$b/nsid" ] && [ "$(cat "$b/nsid")" = "$1" ] && [ -b "/dev/${b##*/}" ]; then
                echo "/dev/${b##*/}"
                return
            fi
        done
        usleep 200000
    done
    fail "no block device of namespace $1"
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
    nvme error-log "$device" >/dev/null
    nvme fw-log "$device" >/dev/null
    nvme effects-log "$device" --csi=0 >/dev/null
    nvme list-ns "$device" | grep -c '^\[' | grep -qx 2
    nvme ns-descs "$device" -n 1 >/dev/null
    for feature in 1 2 4 5 0xa 0xb; do nvme get-feature "$device" -f $feature >/dev/null; done
    echo "error, firmware and effects logs, the namespace list, six features"
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
discover-persistently)
    nvme discover --persistent $where $(as_host 1) >/run/out
    grep -q "^subnqn: *$nqn$" /run/out || fail "$(cat /run/out)"
    nqn=nqn.2014-08.org.nvmexpress.discovery
    name=$(controller 1)
    live "$name"
    sleep 3
    live "$name"
    nvme disconnect -d "$name" >/dev/null
    echo "the connection stays"
    ;;
connect) connect "$@" ;;
identify) identify ;;
logs) logs ;;
data) data "$@" ;;
reset) reset ;;
keep-alive) # SECONDS
    name=$(controller 1)
    sleep "$1"
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
