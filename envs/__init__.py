"""Environments: each folder is one environment that knows the contract in `agentgym` and nothing else."""
