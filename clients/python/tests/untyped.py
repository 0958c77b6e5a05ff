"""A program whose five faults mypy finds."""

import helba

client = helba.Client(8080)
bandit = client.create(arms="2")
decision = bandit.decide([["a"]])
bandit.feedback(decision.arm, 0.5)
reward: int = bandit.status()
