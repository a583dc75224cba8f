"""From attributes and shapes to a plan: everything that is known before data is read."""

from poolcli.plan.make import make_plan, plan_or_none
from poolcli.plan.plan import AxisPlan, Fact, IndexPlan, Plan

__all__ = ["AxisPlan", "Fact", "IndexPlan", "Plan", "make_plan", "plan_or_none"]
