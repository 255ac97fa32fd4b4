#!/usr/bin/env bash
# Review a change of policy as policy-review.yml does it for a pull request: what it does, its proof, a minute of fuzzing.
#
#   tests/examples/policy_review/review.sh                     # old.toml and new.toml, which stand beside it
#   review.sh <(git show main:policy.toml) policy.toml         # what you have changed since main
#
# A file that does not exist stands for the defaults. It fails where the new policy is not proved, or breaks a promise.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
old=${1:-$here/old.toml} new=${2:-$here/new.toml}
[ -e "$old" ] || old=/dev/null
[ -e "$new" ] || new=/dev/null

rungwise diff "$old" "$new" --max-tokens 4096 # -o page.html writes the page of it
rungwise verify "$new" --backends 2 --max-tokens 4096
rungwise fuzz "$new" --backends 2 --seconds "${FUZZ_SECONDS:-60}"
