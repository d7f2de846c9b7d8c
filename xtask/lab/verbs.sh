# `nvmfspec` over verbs in the guest, on its soft-RoCE: sh -eu /verbs.sh STEP. Any command that fails fails the step.
set -o pipefail
at=10.9.0.2
over="--transport rdma --nic verbs:rxe0"
kernels=nqn.2026-01.org.example:lab:sub1
ours=nqn.2026-01.org.example:lab:verbs
port=4430

fail() {
    echo "$*" >&2
    exit 1
}

begins() { # WHAT
    echo "$(cut -d' ' -f1 /proc/uptime) s: $*"
}

refused() { # STATUS TEXT COMMAND...: one line that says so
    status=$1 text=$2
    shift 2
    is=0
    "$@" >/run/out 2>&1 || is=$?
    [ $is = "$status" ] && [ "$(wc -l </run/out)" = 1 ] && grep -q "$text" /run/out || fail "$*: status $is: $(cat /run/out)"
}

written() { # NQN PORT: 4 MiB and some, and their way back
    dd if=/usr/lib/x86_64-linux-gnu/libcrypto.so.3 of=/run/written bs=512 count=8195 status=none
    /nvmfspec host write --target $at:$2 --nqn "$1" $over --nsid 1 --lba 3 --file /run/written --verify
    /nvmfspec host read --target $at:$2 --nqn "$1" $over --nsid 1 --lba 3 --blocks 8195 --file /run/read
    cmp /run/written /run/read
}

case $1 in
host)
    begins "what cannot be"
    refused 3 "no RDMA device nope: there are rxe0" /nvmfspec host connect --target $at --nqn $kernels --transport rdma --nic verbs:nope
    refused 3 "10.0.2.15 is not on the RDMA device rxe0" /nvmfspec host connect --target 10.0.2.15 --nqn $kernels $over
    refused 2 "cannot be seen" /nvmfspec host connect --target $at --nqn $kernels $over --judge
    begins "discovery, from the kernel's target"
    /nvmfspec host discover --target $at:4420 $over | grep $kernels
    begins "data"
    written $kernels 4420
    # what lies there by the kernel's own account
    dd if=/dev/nullb0 bs=4096 iflag=direct,skip_bytes,count_bytes skip=1536 count=4195840 status=none | cmp - /run/written
    begins "a full day"
    /nvmfspec host connect --target $at:4420 --nqn $kernels $over --timeout 60 --exercise --own-side --allow-writes 1:0-8191
    ;;
target)
    /nvmfspec target --listen $at:$port --nqn $ours $over --namespace mem:16MiB --namespace mem:16MiB,bs=4096 >/run/target 2>&1 &
    target=$!
    n=0
    until grep -q "^listening on $at:$port as $ours" /run/target; do
        n=$((n + 1))
        [ $n -lt 100 ] && kill -0 $target || fail "no target: $(cat /run/target)"
        usleep 100000
    done
    for step in discover "connect 1 -i 2" identify commands error "data 1 2" reset disconnect; do
        begins "the kernel's host: $step"
        # what it tells of its progress is of interest where it fails
        sh -eu /host.sh ${step%% *} inside:$port $ours ${step#${step%% *}} 2>/run/told ||
            fail "$(tail -n 5 /run/told); the target says: $(cat /run/target)"
    done
    begins "our own host, over verbs on both sides"
    written $ours $port
    begins "the end"
    kill -TERM $target
    wait $target || fail "the target ended with status $?: $(cat /run/target)"
    ;;
*) fail "there is no step $1" ;;
esac
begins "over"
