"""Local privacy: each person's answer is randomised where it is given, and what is collected may be seen by anyone.

No one needs to be trusted with the true answers, and nothing is charged to a budget. In return the error of a share is
of the order of 1/√n, where noise on a total makes it 1/n. **Who answers is public**: the guarantee is about what a
person answered (neighbours replace an answer), not about whether a person is among those asked.
"""

from dpsql.local.answers import Answers
from dpsql.local.estimate import Estimate, estimate

__all__ = ["Answers", "Estimate", "estimate"]
