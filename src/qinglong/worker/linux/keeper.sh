# The keeper: holds one running command and writes its receipt. POSIX sh; dash, busybox and bash run it.
# Lines that begin with # are cut before it is given to `sh -c`.
#
# Descriptors: 0 go pipe, 1 receipt (allocated, O_DSYNC), 2 log (O_APPEND).
# Arguments: $1 mark of the Attempt, $2 pid file (allocated, relative to here), $3 working folder, then the command.
# Variables are exported if the job's environment has their name, so the only one used is ours.
#
# A no-op handler, not "ignore": the keeper outlives the stop signals of its group, the command gets the defaults.
trap : HUP INT QUIT ALRM TERM USR1 USR2 PIPE
# The shell's own remarks ("Terminated") do not belong into the job's log.
exec 3>&2 2>/dev/null
if ! read -r QL_KEEPER; then
  printf 'not_begun - %s ;\n' "$1"
  exit
fi
# In the foreground: a background command would inherit ignored SIGINT and SIGQUIT.
(
  exec </dev/null >&3 2>&3 3>&-
  read -r QL_KEEPER </proc/self/stat
  printf '%s\n' "$QL_KEEPER" 1<>"$2"
  cd -- "$3" || exit 126
  shift 3
  unset QL_KEEPER OLDPWD
  exec "$@"
)
printf 'ended %s %s ;\n' "$?" "$1"
