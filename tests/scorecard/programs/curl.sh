#!/bin/sh
# What people write: curl with retries and a limit, and Python to take the answer out.
set -e
curl --silent --show-error --fail --retry 3 --max-time 60 \
    "$OPENAI_BASE_URL/chat/completions" \
    --header "authorization: Bearer $OPENAI_API_KEY" \
    --header "content-type: application/json" \
    --data '{"model": "gpt-5", "messages": [{"role": "user", "content": "What should a caller expect?"}]}' |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])'
