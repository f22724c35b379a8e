"""Every bound and every default of the product (I10). ``docs/limits.md`` is generated from here.

Names say the unit: ``_ms`` milliseconds, ``_bytes`` bytes, otherwise a count.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
KIB: Final = 1024
MIB: Final = 1024 * KIB

# Input
VALUE_BYTES: Final = 128 * KIB
"""Longest single value (a command, an environment value, a note); execve allows 128 KiB a string."""
JOB_FILE_BYTES: Final = 4 * MIB
"""Largest job file."""
JOB_FILE_DEPTH: Final = 32
"""Deepest nesting of a job file's lists and mappings."""
FILE_SET_BYTES: Final = 64 * MIB
"""What one file set may become once its aliases, merges and defaults are written out."""
NAME_CHARS: Final = 128
"""Longest name of a project, task, trigger, group or label."""
TASKS_PER_SET: Final = 10_000
"""Tasks in one file set."""
TRIGGERS_PER_TASK: Final = 64
LABELS_PER_TASK: Final = 64
ENV_PER_TASK: Final = 1_000
ERRORS_SHOWN: Final = 100
"""Errors of a job file that are reported at once."""
DURATION_MS: Final = 3_660 * DAY
"""Longest duration a job file may name (ten years)."""
REQUEST_BYTES: Final = 1 * MIB
"""Largest HTTP request body."""
REASON_BYTES: Final = 2 * KIB

# Leases and sessions
LEASE_MS: Final = 60 * SECOND
RENEW_MS: Final = 15 * SECOND
SESSION_MS: Final = 60 * SECOND
CLAIMS_PER_SYNC: Final = 8
"""Runs granted to one sync; twice as many candidates are read."""
PULLS_WOKEN: Final = 16
"""How many waiting pulls a cycle makes look for each placement key of queued Runs."""
CLAIMS_CAP: Final = 64
"""Hard cap of ``CLAIMS_PER_SYNC`` as an operator may set it."""
PREFER_MS: Final = 3 * SECOND
"""How long a queued Run waits for a worker that it prefers before any that may run it gets it."""
PROBATION_AFTER: Final = 3
"""Offers in a row that a worker returns or cannot start, after which it gets one at a time, with growing pauses."""
PROBATION_PAUSE_MS: Final = 2 * SECOND
PROBATION_PAUSE_MAX_MS: Final = 5 * MINUTE
OFFER_ROWS_CAP: Final = 64
"""Most queued Runs that one transaction of pulls reads."""
FENCE_BLOCK: Final = 64
"""Numbers for ``QL_FENCE`` that a pull draws at once from PostgreSQL's sequence."""
REPORTS_PER_SYNC: Final = 256
WORKER_NAME_CHARS: Final = 63
PLACEMENTS: Final = 256
"""Most different placement keys of queued Runs that are looked at at once."""
WORKERS_CAP: Final = 1_000
"""Most worker names in a list."""
CAPABILITIES: Final = 64
"""Most capabilities that a worker may declare."""
REPORT_BYTES: Final = 64 * KIB

# Workers over HTTPS
WORKER_RUNS: Final = 4
"""Runs at once on a worker that names no number."""
WORKER_RUNS_MAX: Final = 1_024
"""Largest number that it may name."""
WORKER_TOKENS: Final = 16
"""Tokens of one worker name that are good at the same time."""
WORKER_CONNECTIONS: Final = 4_096
"""Open connections of one replica's worker ingress; the next one is answered 503."""
WORKER_POLLS: Final = 2_048
"""Requests of workers that wait at one replica at once; the next one is answered 503."""
POLL_MAX_MS: Final = 20 * SECOND
"""Longest wait of one request of a worker; a third of a Session's life."""
SYNC_BYTES: Final = 4 * MIB
"""Largest request of a worker that is no piece of a log."""
LOG_HEAD_BYTES: Final = 8 * KIB
"""Largest first line of a piece of a log, which says whose it is."""
TOKENS_SEEN: Final = 4_096
"""Good tokens, and as many bad ones, that a replica remembers."""
TOKENS_SEEN_MS: Final = 3 * SECOND
"""For so long; a revoked token may still be taken meanwhile."""
TOKENS_ASKED: Final = 50
"""Tokens never seen before that a replica looks up in a second; the next one is answered 503."""
LINK_RETRY_MS: Final = 500
"""A worker's pause after a request without an answer; it doubles with each round of all its addresses."""
LINK_RETRY_MAX_MS: Final = 10 * SECOND
"""Longest such pause."""
LINK_REPLY_MS: Final = 15 * SECOND
"""Silence after which a worker gives a request up, beside what it asked the other side to wait."""
JOIN_CHARS: Final = 16 * KIB
"""Longest join line of a worker."""

# Cadence
PAGE_CAP: Final = 64
"""Hard cap of a recover or retry page."""

# Schedules
CRON_SEARCH_YEARS: Final = 100
"""A schedule without a fire within this many years never fires and is refused."""
MISSED_ALL: Final = 1_000
"""Largest N of ``missed: {all: N}``."""
LATE_MS: Final = 60 * SECOND
"""An occurrence late by at most this much that is its trigger's newest is on time, not missed."""
OVERLAP_QUEUE: Final = 1_000
"""Largest N of ``overlap: {queue: N}``; also how many Runs may wait at one concurrency group."""
EVERY_MIN_MS: Final = 1 * SECOND
"""Shortest interval of an ``every`` trigger."""

# Retry
MAX_ATTEMPTS: Final = 100
BACKOFF_FLOOR_MS: Final = 1 * SECOND
BACKOFF_MAX_MS: Final = 24 * HOUR
BACKOFF_FACTOR_MAX: Final = 100
"""Largest growth of the delay from one Attempt to the next; keeps ``factor ** MAX_ATTEMPTS`` a finite float."""
RETURNS_MAX: Final = 8
"""Returned or never-started deliveries of one Run from which on it is shown as undeliverable."""

# Late evidence
LATE_EVIDENCE_PER_ATTEMPT: Final = 16

# Execution
STOP_GRACE_MS: Final = 10 * SECOND
GRACE_MAX_MS: Final = HOUR
LOG_CAP_BYTES: Final = 64 * MIB
LOG_CAP_EDGE_BYTES: Final = 4 * MIB
LOG_READ_BYTES: Final = 256 * KIB
"""Most bytes of a log that one read returns."""
LOG_PART_BYTES: Final = 256 * KIB
"""Most bytes of a log that a worker sends at once."""
LOG_SEND_MS: Final = 10 * SECOND
"""A growing log is sent at least this often, sooner when it fills a part or somebody watches."""
LOG_SENDERS: Final = 4
"""Pieces of logs that a worker sends at once."""
LOG_BACKLOG: Final = 10_000
"""Ended Attempts whose logs wait for their store; a worker with so many takes nothing new."""
LOG_RETRY_MAX_MS: Final = MINUTE
"""Longest pause before a piece of a log is sent again."""
LOG_OBJECT_BYTES: Final = 4 * MIB
"""Size of the objects that a store has of long logs."""
LOG_MERGE_AFTER: Final = 64
"""Small objects of a growing log after which they are merged."""
LOG_MERGES: Final = 4
"""Pieces of logs that a replica stores, merges or seals at once; each may hold two objects in memory."""
LOG_LATE_MS: Final = MINUTE
"""So long after an Attempt's end its reader still waits for what its worker has not sent yet."""
LOG_WAIT_MS: Final = 5 * SECOND
"""Longest such wait of one read."""
LOG_FENCE_MS: Final = MINUTE
"""So long a replica remembers that a worker may send an Attempt's log."""
LOG_FENCES: Final = 4_096
"""How many of these answers, and how many watched logs, a replica remembers."""
DISK_RESERVE_BYTES: Final = 32 * MIB
"""With less free space in the data folder new Runs pause; running ones keep their results."""

# Lists
LIST_PAGE: Final = 50
LIST_CAP: Final = 500
EVENTS_PAGE: Final = 1_000
