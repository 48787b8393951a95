#!/bin/sh
# A timer pushes an event every second. The event starts a handler, which leaves a notice for a person. No daemon is set up before, and none stays.
#
# Run it: sh examples/cron_and_handler.sh
set -eu

folder=$(mktemp -d)
trap 'notifier stop > /dev/null || :; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM  # so that Ctrl-C cleans up too
export INBOX_DB="$folder/coord.db" NOTIFIER_HOME="$folder/notifier"
inbox init > /dev/null
thread init "$folder/disk" > /dev/null

# The handler runs in a folder of its own: it pops the events, works, and acks them. If it fails, it is started again with the same events.
thread subscribe --thread "$folder/disk" --consumer reporter --env INBOX_DB --handler '
    thread pop > batch &&
    inbox notify --from reporter --body "The disk was checked" &&
    thread ack --events batch' > /dev/null

# Six fields: the first one is seconds. "*/5 * * * *" would be every five minutes.
notifier timer add --agent ops --timer-id check --cron '* * * * * *' \
    --command "thread push --thread '$folder/disk' --source self --type message --content 'disk is full'" > /dev/null

until inbox entries --notices | grep -q "was checked"; do sleep 0.1; done
notifier timer remove --timer-id check > /dev/null
inbox entries --notices | grep -o "reporter.*" | head -1
