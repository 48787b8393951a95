#!/bin/sh
# A deployment that goes on only after a person has agreed. Silence, a refusal and a crash all mean: do not deploy.
#
# Run it: sh examples/approval_gate.sh
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM  # so that Ctrl-C cleans up too
export INBOX_DB="$folder/coord.db"
inbox init > "$folder/log"

# ask_person VERSION: exit 0 only if a person has chosen "deploy". The entry shows in `inbox entries` and on the page of `inbox serve`.
ask_person() {
    question=$(inbox ask --from deployer --title "Release $1" --question "Deploy $1 to production?" \
        --choice deploy --choice no --dangerous deploy --deadline-seconds 3600 --on-silence refuse --no-wait --print id)
    answer_as_person "$question" "$2" &
    inbox ask --entry "$question" --expect deploy --print answer
}

# Here the script plays the person. A real one answers on the page, on the phone, or with this command.
answer_as_person() {
    inbox entry reply "$1" --body "$2" >> "$folder/log"
}

for release in "v1 no" "v2 deploy"; do
    version=${release% *} answer=${release#* }
    if ask_person "$version" "$answer"; then
        echo "$version: deployed"
    else
        echo "$version: not deployed (exit $?)"
    fi
    wait
done
