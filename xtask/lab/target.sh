# Sets up the kernel's NVMe target: two subsystems, each on TCP ports 4420 and 8009 and on RDMA port 4420. Run by the guest's init
# with sh -eu.
nvmet=/sys/kernel/config/nvmet
nullb=/sys/kernel/config/nullb

null_block() { # name MiB block-size
    mkdir $nullb/$1
    echo $2 >$nullb/$1/size
    echo $3 >$nullb/$1/blocksize
    echo 1 >$nullb/$1/memory_backed
    echo 1 >$nullb/$1/discard
    echo 1 >$nullb/$1/power
}

subsystem() { # nqn serial
    mkdir $nvmet/subsystems/$1
    echo 1 >$nvmet/subsystems/$1/attr_allow_any_host
    echo $2 >$nvmet/subsystems/$1/attr_serial
    echo "Linux lab target" >$nvmet/subsystems/$1/attr_model
}

namespace() { # nqn nsid path uuid
    mkdir $nvmet/subsystems/$1/namespaces/$2
    echo $3 >$nvmet/subsystems/$1/namespaces/$2/device_path
    echo $4 >$nvmet/subsystems/$1/namespaces/$2/device_uuid
    # files on tmpfs have direct I/O since Linux 6.6 only
    case $3:$(uname -r) in /run/*:6.1.*) echo 1 >$nvmet/subsystems/$1/namespaces/$2/buffered_io ;; esac
    echo 1 >$nvmet/subsystems/$1/namespaces/$2/enable
}

port() { # id transport address port nqn...
    mkdir $nvmet/ports/$1
    echo ipv4 >$nvmet/ports/$1/addr_adrfam
    echo $2 >$nvmet/ports/$1/addr_trtype
    echo $3 >$nvmet/ports/$1/addr_traddr
    echo $4 >$nvmet/ports/$1/addr_trsvcid
    local id=$1
    shift 4
    # a port listens once a subsystem is linked to it, and answers discovery as well
    for nqn; do ln -s $nvmet/subsystems/$nqn $nvmet/ports/$id/subsystems/$nqn; done
}

sub1=nqn.2026-01.org.example:lab:sub1
sub2=nqn.2026-01.org.example:lab:sub2

null_block nullb0 64 512
null_block nullb1 16 512
truncate -s 32M /run/ns2.img # a file on tmpfs: nvmet gives it blocks of 4096 bytes

subsystem $sub1 LAB0000000000001
namespace $sub1 1 /dev/nullb0 5ca1ab1e-0000-4000-8000-000000000001
namespace $sub1 2 /run/ns2.img 5ca1ab1e-0000-4000-8000-000000000002
subsystem $sub2 LAB0000000000002
namespace $sub2 1 /dev/nullb1 5ca1ab1e-0000-4000-8000-000000000003

port 1 tcp 10.0.2.15 4420 $sub1 $sub2
port 2 tcp 10.0.2.15 8009 $sub1 $sub2
port 3 rdma 10.9.0.2 4420 $sub1 $sub2
