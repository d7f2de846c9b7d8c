# What a target that is wrong is made to go through: sh -u /wrong.sh PORT NQN OPTION... ; OPTIONs are for nvme connect.
# Each line that begins with "did" tells how a thing ended: ok, its status, or "hangs". Nothing waits longer than a bound.
port=$1 nqn=$2
shift 2
id=00000000-0000-4000-8000-000000000001
where="-t tcp -a 10.0.2.2 -s $port"
as="-q nqn.2014-08.org.nvmexpress:uuid:$id -I $id"
# the kernel's own patience is half a minute and more
echo 3 >/sys/module/nvme_core/parameters/io_timeout
echo 6 >/sys/module/nvme_core/parameters/admin_timeout

bounded() { # SECONDS WHAT COMMAND...: what hangs is left behind, for it may be in the kernel
    seconds=$1 what=$2
    shift 2
    rm -f /run/status
    ("$@" >/run/out 2>&1; echo $? >/run/status.new; mv /run/status.new /run/status) &
    for _ in $(seq $((seconds * 5))); do
        [ ! -e /run/status ] || break
        usleep 200000
    done
    status=hangs
    [ ! -e /run/status ] || status=$(cat /run/status)
    [ "$status" != 0 ] || status=ok
    echo "did $what $status"
    [ "$status" = ok ]
}

device() { # NSID
    for b in /sys/block/nvme*; do
        case ${b##*/} in *c*) continue ;; esac
        [ ! -e "$b/nsid" ] || [ "$(cat "$b/nsid")" != "$1" ] || [ ! -b "/dev/${b##*/}" ] || echo "/dev/${b##*/}"
    done
}

has_device() {
    for _ in $(seq 25); do
        [ -z "$(device 1)" ] || return 0
        usleep 200000
    done
    return 1
}

write() {
    dd if=/run/pattern of="$block" bs=4096 count=64 oflag=direct conv=notrunc status=none &&
        dd if=/run/pattern of="$block" bs=1M iflag=skip_bytes skip=262144 seek=262144 oflag=direct,seek_bytes conv=notrunc status=none
}

compare() {
    dd if="$block" bs=1M iflag=direct,count_bytes count=2097152 status=none | cmp - /run/pattern &&
        dd if="$block" bs=4096 count=64 iflag=direct status=none | cmp -n 262144 - /run/pattern
}

head -c 2097152 /usr/lib/x86_64-linux-gnu/libcrypto.so.3 >/run/pattern
bounded 20 discover nvme discover $where $as
if bounded 30 connect nvme connect $where -n "$nqn" $as -k 4 -c 1 -l 6 "$@" && bounded 8 device has_device; then
    block=$(device 1)
    bounded 20 write write
    bounded 20 compare compare
    bounded 12 identify nvme id-ctrl "/dev/$(ls /sys/class/nvme | head -n 1)"
    sleep 5
    echo "did state $(cat /sys/class/nvme/nvme*/state 2>/dev/null | tr '\n' ' ')"
fi
bounded 30 disconnect nvme disconnect-all
for _ in $(seq 25); do
    ls /sys/class/nvme/nvme* >/dev/null 2>&1 || break
    usleep 200000
done
left=$(ls /sys/class/nvme | tr '\n' ' ')
echo "did end ${left:-ok}"
