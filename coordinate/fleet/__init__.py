"""The fleet wing: agents and sessions, scope leases, locks, worktrees."""
