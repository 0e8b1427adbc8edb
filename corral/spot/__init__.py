"""Training on spot machines without a cluster: hazard, intervals, placement, traces, simulation.

Pure: no I/O, no Kubernetes, no clock of its own. Start with `decide` (planner.py): one step of
placement, which the controller takes in a cluster and `simulate` on a trace. What was learnt is in
a `Memory`. docs/spot.md tells the rest. Times are seconds, prices are per hour.
"""

from corral.spot.blocks import Blocks, Refusal
from corral.spot.compare import Ratio, Summary, cost_ratio, job_of, outcomes, summarize
from corral.spot.errors import InvalidTrace, NoOffers, SpotError, UnknownRule
from corral.spot.estimate import Estimate, estimate
from corral.spot.generate import SHAPES, generate
from corral.spot.hazard import HazardHistory, HazardSettings
from corral.spot.interval import checkpoint_interval, notice_allows, young_daly
from corral.spot.ledger import Ledger
from corral.spot.markets import HOUR, Home, Network, Offer, Place
from corral.spot.memory import Memory
from corral.spot.planner import Action, Decision, PlannerSettings, View, decide
from corral.spot.prices import PriceHistory
from corral.spot.rules import RULES, Rule, rule
from corral.spot.simulate import Outcome, simulate
from corral.spot.trace import Loss, Market, Trace
from corral.spot.workload import Progress, Workload

__all__ = [
    "HOUR",
    "RULES",
    "SHAPES",
    "Action",
    "Blocks",
    "Decision",
    "Estimate",
    "HazardHistory",
    "HazardSettings",
    "Home",
    "InvalidTrace",
    "Ledger",
    "Loss",
    "Market",
    "Memory",
    "Network",
    "NoOffers",
    "Offer",
    "Outcome",
    "Place",
    "PlannerSettings",
    "PriceHistory",
    "Progress",
    "Ratio",
    "Refusal",
    "Rule",
    "SpotError",
    "Summary",
    "Trace",
    "UnknownRule",
    "View",
    "Workload",
    "checkpoint_interval",
    "cost_ratio",
    "decide",
    "estimate",
    "generate",
    "job_of",
    "notice_allows",
    "outcomes",
    "rule",
    "simulate",
    "summarize",
    "young_daly",
]
