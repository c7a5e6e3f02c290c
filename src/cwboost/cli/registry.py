"""The commands of the command line. To add one, write a file in `commands/` and a line here."""

from __future__ import annotations

from .command import Command
from .commands.cv import CV_COMMAND
from .commands.demo import DEMO_COMMAND
from .commands.explain import EXPLAIN_COMMAND
from .commands.export import EXPORT_COMMAND
from .commands.fit import FIT_COMMAND
from .commands.plot import PLOT_COMMAND
from .commands.predict import PREDICT_COMMAND
from .commands.report import REPORT_COMMAND
from .commands.show import SHOW_COMMAND
from .commands.tune import TUNE_COMMAND

# In the order of `cwboost --help`.
COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        FIT_COMMAND,
        CV_COMMAND,
        TUNE_COMMAND,
        PREDICT_COMMAND,
        EXPLAIN_COMMAND,
        SHOW_COMMAND,
        PLOT_COMMAND,
        REPORT_COMMAND,
        EXPORT_COMMAND,
        DEMO_COMMAND,
    )
}
