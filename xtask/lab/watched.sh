# Runs a command that takes no longer than SECONDS: sh /watched.sh SECONDS COMMAND [ARG]...
# Comes back even where no signal ends the command, and tells where all threads are: `timeout` would wait for it.
limit=$1
shift
# a group of its own, so that what it started ends with it
setsid "$@" &
pid=$!
trap 'exit 124' USR1
{
    sleep "$limit"
    echo "not done after $limit s: $*"
    for process in /proc/[0-9]*; do
        # threads of the kernel have no command line
        [ -n "$(cat $process/cmdline 2>/dev/null)" ] || continue
        for task in $process/task/*; do
            echo "thread $(cat $task/comm) of ${process##*/}, $(grep State: $task/status), in:"
            cat $task/stack
        done
    done
    # the kernel's log gets every task in a wait that no signal ends
    echo w >/proc/sysrq-trigger
    kill -- -$pid
    sleep 2
    kill -9 -- -$pid
    sleep 2
    kill -USR1 $$
} 2>&1 &
dog=$!
wait $pid
status=$?
kill $dog
exit $status
