#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
NS=${NS:-bench}
DEPLOY=vllm-mi355x

kubectl -n "$NS" patch deployment "$DEPLOY" --type merge -p '{"spec":{"replicas":2}}'
kubectl -n "$NS" patch svc vllm --patch-file k8s/svc-nodeport.yaml
kubectl -n "$NS" rollout status deployment/"$DEPLOY" --timeout=30m

gh api -X PATCH "repos/$GITHUB_REPOSITORY/issues/$PR" -f body="$(cat summary.md)"

VERSION=1.4.2
IFS=. read -r major minor patch <<< "$VERSION"
echo "harness ${major}.${minor}.$((patch + 1))"
