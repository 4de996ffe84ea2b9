"""The standard library only: diffs, plan, ledger, transaction. Runs inside a container on its own."""
