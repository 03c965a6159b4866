"""Target machines as data: the facts about a machine that passes, planners and emitters use."""
