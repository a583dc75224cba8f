"""Why a plan is what it is: formulas with their numbers, windows, other frameworks, and the inverse questions."""
