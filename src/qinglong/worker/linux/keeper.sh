# The keeper: holds one running command and writes its receipt. POSIX sh; dash, busybox and bash run it.
# Lines that begin with # are cut before it is given to `sh -c`.
#
# Descriptors: 0 go pipe, 1 receipt (allocated, O_DSYNC), 2 the control group's cgroup.threads, or /dev/null.
# Arguments: $1 mark of the Attempt, $2 how its files' names begin (the log and the allocated pid file, relative
# to here), $3 working folder, then the command.
# Variables are exported if the job's environment has their name, so the only ones used are ours.
#
# A no-op handler, not "ignore": the keeper outlives the stop signals of its group, the command gets the defaults.
trap : HUP INT QUIT ALRM TERM USR1 USR2 PIPE
# Into the group before all else. Whoever stays outside must not run anything: an empty group calls a tree gone.
QL_INSIDE=yes
echo 0 >&2 || QL_INSIDE=
# The shell's own remarks ("Terminated") do not belong into the job's log.
exec 2>/dev/null
if ! read -r QL_KEEPER; then
  printf 'not_begun - %s ;\n' "$1"
  exit
fi
# In the foreground: a background command would inherit ignored SIGINT and SIGQUIT.
(
  exec </dev/null >>"$2.log" 2>&1
  [ "$QL_INSIDE" ] || { echo 'qinglong: the control group of this attempt cannot be entered'; exit 126; }
  read -r QL_KEEPER </proc/self/stat
  printf '%s\n' "$QL_KEEPER" 1<>"$2.pid"
  cd -- "$3" || exit 126
  shift 3
  unset QL_KEEPER QL_INSIDE OLDPWD
  exec "$@"
)
printf 'ended %s %s ;\n' "$?" "$1"
