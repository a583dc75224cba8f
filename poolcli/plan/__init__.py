"""From attributes and shapes to a plan: everything that is known before an element is read."""

from poolcli.plan.plan import AxisPlan, IndexPlan, Plan, make_plan

__all__ = ["AxisPlan", "IndexPlan", "Plan", "make_plan"]
