"""Losses: which y a model takes, where its fit starts, what its predictions mean.

`base.Loss` is the contract; the families are in regression.py, classification.py and tweedie.py, a
loss from a user's object in python_loss.py, and the names in registry.py.

To add a loss: a class in the file of its family or in a new file, a line in registry.py, and its
value and residual on one row, in Python or in core/loss.hpp.
"""

from .base import Loss as Loss
from .base import TargetRows as TargetRows
from .classes import n_informative as n_informative
from .classification import Binomial as Binomial
from .classification import Multinomial as Multinomial
from .evaluation import EvaluatedRows as EvaluatedRows
from .evaluation import auc as auc
from .evaluation import explained as explained
from .evaluation import risk as risk
from .evaluation import row_losses as row_losses
from .python_loss import PythonLoss as PythonLoss
from .registry import LOSSES as LOSSES
from .registry import as_loss as as_loss
from .registry import explain_registration as explain_registration
from .registry import is_registered as is_registered
from .registry import loss_for_classes as loss_for_classes
from .regression import Absolute as Absolute
from .regression import Huber as Huber
from .regression import Quantile as Quantile
from .regression import Squared as Squared
from .tweedie import Gamma as Gamma
from .tweedie import Poisson as Poisson
from .tweedie import Tweedie as Tweedie
