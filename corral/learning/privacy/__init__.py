"""Differential privacy of clients: clipped updates, Gaussian noise, and a budget that ends a job.

`Privacy` says how much, `PrivateRound` does it, `Accountant` adds up what was spent and says when
no more may be. The unit is the client: the model hardly tells whether any one took part at all.
"""

from corral.learning.privacy.accountant import Accountant, Budget
from corral.learning.privacy.mechanism import Privacy
from corral.learning.privacy.rounds import PrivateRound

__all__ = ["Accountant", "Budget", "Privacy", "PrivateRound"]
