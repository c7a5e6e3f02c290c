"""Models as ONNX graphs of standard operators. The only file that uses the package onnx.

For every column the graph finds the number of its piece, by a binary search over the breaks
(numbers) or by a LabelEncoder (text), and t, the position within the piece. A term gathers the
coefficients of its pieces and evaluates them by Horner's rule. All computations are in double.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import replace_file
from cwboost._utils.checks import check_one_of, check_text
from cwboost._utils.text import quote
from cwboost.frames.columns import Labels, Numbers
from cwboost.frames.read_frames import read
from cwboost.model.model import Model, check_model
from cwboost.model.pieces import Axis, TermPieces, pieces_of
from cwboost.model.scoring import output_labels

from .link_and_offset import FixedColumns, checked_link, fixed_columns

if TYPE_CHECKING:
    import onnx

OPSET, ML_OPSET, IR_VERSION = 18, 2, 8  # read by onnxruntime 1.14 and later


def to_onnx(
    model: Model,
    kind: Literal["response", "score"] = "response",
    *,
    numbers: Literal["double", "float"] = "double",
    missing: str = "",
    offset: Any = None,
    exposure: Any = None,
) -> onnx.ModelProto:
    """Return the model as an ONNX graph.

    The inputs are one tensor of shape (rows,) per column: numbers, NaN where missing, or strings;
    `onnx_inputs` makes them from a table. The outputs are `score` and, with kind "response",
    `response`, of shape (rows,), or (rows, classes) with several classes.

    Parameters
    ----------
    model : Model
    kind : "response" or "score"
    numbers : "double" or "float"
        Type of the numeric inputs. Floats have only 7 digits, so a value may fall on the other
        side of a step. The graph computes in double either way.
    missing : str
        The text that means a missing cell in string inputs. Where a cell may hold this text and
        is not missing, pass another text; `onnx_inputs` tells the two apart.
    offset, exposure : str, optional
        Names of further inputs, by default the columns that the model was fitted with. With
        several classes the offset has the shape (rows, classes). offset=0 or exposure=1 means none.

    Returns
    -------
    onnx.ModelProto
        Save it with `onnx.save(graph, "model.onnx")`.

    Examples
    --------
    >>> import cwboost as cb, onnxruntime
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> session.run(["response"], onnx_inputs(model, {"g": ["b", "a"]}))[0].round(2)
    array([1., 0.])
    """
    check_model(model, "to_onnx")
    _check_options(numbers, missing)
    link = checked_link(model, kind, LINKS, "ONNX")
    fixed = fixed_columns(model, offset, exposure)
    if len(fixed.offset) > 1:
        raise TypeError("offset: expected the name of one input of shape (rows, classes)")
    try:
        graph: onnx.ModelProto = _Graph(model, numbers, missing, fixed).write(
            link if kind == "response" else None
        )
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{quote(error.object)} has half a surrogate pair, which ONNX cannot hold; rename it"
        ) from None
    return graph


def _check_options(numbers: Any, missing: Any) -> None:
    check_one_of("numbers", numbers, ("double", "float"))
    check_text("missing", missing)


def write_onnx(model: Model, file: Any, **options: Any) -> None:
    """Write the graph to a file, completely or not at all, with the options of `to_onnx`."""
    graph = to_onnx(model, **options)
    with replace_file(file) as temporary:
        temporary.write_bytes(graph.SerializeToString())


def onnx_inputs(
    model: Model,
    table: Any,
    *,
    numbers: Literal["double", "float"] = "double",
    missing: str = "",
    offset: Any = None,
    exposure: Any = None,
) -> dict[str, NDArray[Any]]:
    """Return the inputs of a session of `to_onnx(model)` for a table, with the same parameters.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> onnx_inputs(model, {"g": ["b", None], "other": [1, 2]})
    {'g': array(['b', ''], dtype=object)}
    """
    check_model(model, "onnx_inputs")
    _check_options(numbers, missing)
    data, fixed, out = read(table), fixed_columns(model, offset, exposure), {}
    real, pieces = np.float64 if numbers == "double" else np.float32, pieces_of(model)
    for name, is_number in _columns(pieces, fixed).items():
        column = data[name]
        if is_number and isinstance(column, Numbers):
            out[name] = column.values.astype(real)
        elif is_number:
            raise TypeError(f"column {quote(name)}: expected numbers, got text")
        else:
            axes = (axis for p in pieces for axis in p.axes if axis.column == name)
            known = {level for axis in axes for level in axis.levels}
            out[name] = _texts(column.labels(), missing, known)
    return out


def _texts(labels: Labels, missing: str, known: set[str]) -> NDArray[np.object_]:
    """Return the text of every row. The graph takes the text `missing` for a missing cell, so a
    cell that has this text gets another text that is not one of the `known` levels."""
    unknown = "?"
    while unknown in known or unknown == missing:
        unknown += "?"
    levels = tuple(unknown if level == missing else level for level in labels.levels)
    cells = replace(labels, levels=levels).to_cells()
    cells[labels.missing] = missing
    return cells


def _columns(pieces: list[TermPieces], fixed: FixedColumns) -> dict[str, bool]:
    """Return the names of the inputs, and whether each is numeric."""
    out = {axis.column: axis.numeric for p in pieces for axis in p.axes}
    for name in (*fixed.offset, *([fixed.exposure] if fixed.exposure else [])):
        out.setdefault(name, True)
    return out


def _import_onnx() -> Any:
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_onnx needs the package onnx; install it with: pip install 'cwboost[onnx]'"
        ) from error
    return onnx


class _Graph:
    """The nodes, constants and names of one graph; methods return names of tensors."""

    def __init__(self, model: Model, numbers: str, missing: str, fixed: FixedColumns) -> None:
        self.onnx = _import_onnx()
        self.model, self.pieces, self.fixed, self.missing = model, pieces_of(model), fixed, missing
        self.numbers = numbers
        self.columns = _columns(self.pieces, fixed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.known: dict[tuple[str, bytes], str] = {}  # constants and casts so far
        self.prefix = "cwboost"
        while any(name.startswith(self.prefix) for name in self.columns):
            self.prefix += "_"
        for name in self.columns:
            if not name or name in ("score", "response"):
                raise ValueError(
                    f"column {quote(name)} cannot be the name of an ONNX input; rename it before "
                    "the fit"
                )

    # --- building blocks --------------------------------------------------------------------------

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        array = np.ascontiguousarray(values, dtype=dtype)
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        if key not in self.known:
            self.known[key] = f"{self.prefix}/constant_{len(self.constants)}"
            self.constants.append(self.onnx.numpy_helper.from_array(array, self.known[key]))
        return self.known[key]

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{self.prefix}/{operator}_{len(self.nodes)}"
        domain = {"domain": "ai.onnx.ml"} if operator == "LabelEncoder" else {}
        self.nodes.append(
            self.onnx.helper.make_node(operator, list(inputs), [name], **domain, **attributes)
        )
        return name

    def number(self, column: str) -> str:
        """Return a numeric input as double."""
        if self.numbers == "double":
            return column
        key = (column, b"cast")
        if key not in self.known:
            self.known[key] = self.node("Cast", column, to=self.onnx.TensorProto.DOUBLE)
        return self.known[key]

    # --- terms ------------------------------------------------------------------------------------

    def search(self, points: Any, x: str, before: str) -> str:
        """Count the increasing points that are "Less" or "LessOrEqual" than x, by bisection."""
        n_steps = len(points).bit_length()
        padded = np.full(2**n_steps - 1, np.inf)
        padded[: len(points)] = points
        at = self.constant(0, np.int64)  # a scalar that comparisons broadcast
        for step in (2**k for k in reversed(range(n_steps))):
            probe = self.node("Add", at, self.constant(step - 1, np.int64))
            point = self.node("Gather", self.constant(padded), probe)
            further = self.node("Cast", self.node(before, point, x), to=self._int64)
            at = self.node("Add", at, self.node("Mul", further, self.constant(step, np.int64)))
        return at

    @property
    def _int64(self) -> int:
        return int(self.onnx.TensorProto.INT64)

    def piece(self, axis: Axis) -> tuple[str, str | None]:
        """Return the number of the piece of every row, and t if the polynomials need it."""
        if not axis.numeric:
            return self._label(axis), None
        x = self.number(axis.column)
        absent = self.node("IsNaN", x)
        x = self.node("Where", absent, self.constant(0.0), x)
        if axis.breaks is None:
            order = np.argsort(axis.level_numbers)
            points = np.append(axis.level_numbers[order], np.inf)
            found = self.search(points[:-1], x, "Less")
            hit = self.node("Equal", self.node("Gather", self.constant(points), found), x)
            level = self.node("Gather", self.constant(np.append(order, 0), np.int64), found)
            at = self.node("Where", hit, level, self.constant(axis.n_pieces - 1, np.int64))
        else:
            at = self.search(axis.breaks, x, "Less" if axis.closed_above else "LessOrEqual")
        at = self.node("Where", absent, self.constant(axis.n_known, np.int64), at)
        if axis.degree == 0:
            return at, None
        origin = self.node("Gather", self.constant(axis.origin), at)
        width = self.node("Gather", self.constant(axis.width), at)
        t = self.node("Div", self.node("Sub", x, origin), width)
        return at, self.node("Unsqueeze", t, self.constant([1], np.int64))

    def _label(self, axis: Axis) -> str:
        if self.missing in axis.levels:
            raise ValueError(
                f"column {quote(axis.column)}: {quote(self.missing)} is one of its levels, so it "
                "cannot also mean a missing cell; pass another text as missing="
            )
        for level in axis.levels:
            if "\0" in level:
                raise ValueError(
                    f"column {quote(axis.column)}: level {quote(level)} contains a zero byte, "
                    "which ends an ONNX string; rename the level before the fit"
                )
        spelled = {text: i for i, texts in enumerate(axis.level_texts) for text in texts}
        spelled[self.missing] = axis.n_known
        return self.node(
            "LabelEncoder",
            axis.column,
            keys_strings=list(spelled),
            values_int64s=list(spelled.values()),
            default_int64=axis.n_pieces - 1,
        )

    def effect(self, pieces: TermPieces) -> str:
        """Return the effect of a term, (rows, q)."""
        places = [self.piece(axis) for axis in pieces.axes]
        at, t = places[0]
        if len(places) == 1:
            return self.horner([self._gather(c, at) for c in pieces.coef.transpose(1, 0, 2)], t)
        (a, s), (b, t) = places
        at = self.node("Mul", a, self.constant(pieces.axes[1].n_pieces, np.int64))
        at = self.node("Add", at, b)
        coef = pieces.coef.transpose(2, 3, 0, 1, 4)  # (powers a, powers b, pieces a, pieces b, q)
        flat = coef.reshape(*coef.shape[:2], -1, coef.shape[4])
        return self.horner([self.horner([self._gather(c, at) for c in row], t) for row in flat], s)

    def _gather(self, coef: Any, at: str) -> str:
        return self.node("Gather", self.constant(coef), at)

    def horner(self, coef: list[str], t: str | None) -> str:
        out = coef[-1]
        for c in reversed(coef[:-1]):
            assert t is not None
            out = self.node("Add", c, self.node("Mul", out, t))
        return out

    # --- the graph --------------------------------------------------------------------------------

    def write(self, link: str | None) -> Any:
        """Return the model; with a link it has the output `response` too."""
        parts = [self.effect(pieces) for pieces in self.pieces] + self._fixed()
        intercept = self.model.intercept_vector[None, :]
        score = self.constant(intercept) if parts else self._alone(intercept)
        for part in parts:
            score = self.node("Add", score, part)
        one = self.model.n_outputs == 1
        outputs = [self._output("score", score, one)]
        if link is not None:
            outputs.append(self._output("response", LINKS[link](self, score), one))
        return self._model(outputs)

    def _alone(self, intercept: Any) -> str:
        raise ValueError(
            f"the model has no chosen term, so the graph would have no input: the score is "
            f"{intercept.ravel()} for all rows; fit more iterations"
        )

    def _fixed(self) -> list[str]:
        """Return offset and log exposure, (rows, 1 or q) each."""
        out = []
        q = self.model.n_outputs
        for name in self.fixed.offset:
            shape = self.constant([-1, q], np.int64)
            out.append(self.node("Reshape", self.number(name), shape))
        if self.fixed.exposure is not None:
            logarithm = self.node("Log", self.number(self.fixed.exposure))
            out.append(self.node("Unsqueeze", logarithm, self.constant([1], np.int64)))
        return out

    def _output(self, name: str, value: str, one: bool) -> Any:
        if one:
            self.node("Squeeze", value, self.constant([1], np.int64), output=name)
        else:
            self.node("Identity", value, output=name)
        shape = ["rows"] if one else ["rows", self.model.n_outputs]
        make = self.onnx.helper.make_tensor_value_info
        return make(name, self.onnx.TensorProto.DOUBLE, shape)

    def _model(self, outputs: list[Any]) -> Any:
        from cwboost import __version__

        helper, types = self.onnx.helper, self.onnx.TensorProto
        real = types.DOUBLE if self.numbers == "double" else types.FLOAT
        inputs = []
        for name, is_number in self.columns.items():
            several = name in self.fixed.offset and self.model.n_outputs > 1
            shape = ["rows", self.model.n_outputs] if several else ["rows"]
            kind = real if is_number else types.STRING
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
        graph = helper.make_graph(self.nodes, "cwboost", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        out = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="cwboost",
            producer_version=__version__,
        )
        facts = {
            "loss": self.model.loss.name,
            "classes": json.dumps([str(c) for c in self.model.classes]),
            "outputs": json.dumps(output_labels(self.model)),
            "missing": json.dumps(self.missing),
        }
        helper.set_model_props(out, facts)
        self.onnx.checker.check_model(out, full_check=True)
        return out


# Responses from scores (rows, q), by link.
LINKS: dict[str, Callable[[_Graph, str], str]] = {
    "identity": lambda _, score: score,
    "log": lambda graph, score: graph.node("Exp", score),
    "logit": lambda graph, score: graph.node("Sigmoid", score),
    "softmax": lambda graph, score: graph.node("Softmax", score, axis=1),
}
