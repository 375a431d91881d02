"""agentgym: multi-turn text environments, language-model agents, and a trainer, behind one small contract."""
