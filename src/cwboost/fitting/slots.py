"""Numbers by which the core's slots and parts are called."""

from __future__ import annotations

SLOT_F, SLOT_R, SLOT_G = 0, 1, 3  # the last is the momentum's, which is done when it is wanted
TRAINING, VALIDATION, ALL = 0, 1, 2  # numbers of the parts
