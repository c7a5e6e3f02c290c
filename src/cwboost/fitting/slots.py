"""Short names for the slots and parts that the core defines."""

from __future__ import annotations

from cwboost import _core

SLOT_F, SLOT_R = _core.SLOT_F, _core.SLOT_R
SLOT_G = _core.SLOT_H  # reuses the momentum slot, which is free after boosting
TRAINING, VALIDATION, ALL = _core.TRAINING_PART, _core.VALIDATION_PART, _core.ALL_PART
