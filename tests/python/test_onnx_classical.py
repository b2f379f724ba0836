"""Classical models of ai.onnx.ml as scikit-learn exports them, against onnxruntime."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import gex.onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
STRING, FLOAT, INT64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64
ML = "ai.onnx.ml"


def model_of(nodes: list[Any], inputs: dict[str, tuple[int, Any]], outputs: list[Any]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        outputs,
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())


def both(
    nodes: list[Any], inputs: dict[str, tuple[int, Any]], outputs: list[Any], data: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    model = model_of(nodes, inputs, outputs)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return gex.onnx.loads(model).run(data), session.run(None, data)


def maps(name: str, key: int) -> Any:
    return helper.make_value_info(
        name,
        helper.make_sequence_type_proto(
            helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
        ),
    )


@pytest.mark.parametrize("labels", [["no", "maybe", "yes"], [3, 5, 9]])
def test_classifier_with_maps(labels: list[Any]) -> None:
    strings = isinstance(labels[0], str)
    rng = np.random.default_rng(1)
    classes = {"classlabels_strings" if strings else "classlabels_ints": labels}
    zipped = {"classlabels_strings" if strings else "classlabels_int64s": labels}
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain=ML,
            coefficients=rng.standard_normal(12).tolist(),
            intercepts=[0.1, 0.2, 0.3],
            post_transform="SOFTMAX",
            **classes,
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, **zipped),
    ]
    key = STRING if strings else INT64
    outputs = [helper.make_tensor_value_info("label", key, None), maps("maps", key)]
    x = rng.standard_normal((5, 4)).astype(np.float32)
    ours, theirs = both(nodes, {"x": (FLOAT, ["n", 4])}, outputs, {"x": x})
    assert ours[0].tolist() == theirs[0].tolist()
    assert len(ours[1]) == len(theirs[1]) == 5
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert list(a) == labels and sorted(b) == sorted(labels)
        np.testing.assert_allclose([a[k] for k in labels], [b[k] for k in labels], rtol=1e-5)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel: str, one_class: int) -> None:
    rng = np.random.default_rng(3)
    node = helper.make_node(
        "SVMRegressor",
        ["x"],
        ["y"],
        domain=ML,
        kernel_type=kernel,
        kernel_params=[0.3, 0.5, 2.0],
        n_supports=7,
        support_vectors=rng.standard_normal(28).tolist(),
        coefficients=rng.standard_normal(7).tolist(),
        rho=[0.2],
        one_class=one_class,
    )
    x = rng.standard_normal((9, 4)).astype(np.float32)
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    (ours,), (theirs,) = both([node], {"x": (FLOAT, ["n", 4])}, outputs, {"x": x})
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
@pytest.mark.parametrize("labels", [["a", "b"], [4, 2, 7]])
def test_svm_classifier_with_probabilities(kernel: str, labels: list[Any]) -> None:
    rng = np.random.default_rng(5)
    classes, each, features = len(labels), 3, 4
    pairs, vectors = classes * (classes - 1) // 2, classes * each
    words: dict[str, Any] = {
        "classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints": labels
    }
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["label", "p"],
        domain=ML,
        kernel_type=kernel,
        kernel_params=[0.4, 0.0, 3.0],
        vectors_per_class=[each] * classes,
        support_vectors=rng.standard_normal(vectors * features).tolist(),
        coefficients=rng.standard_normal((classes - 1) * vectors).tolist(),
        rho=rng.standard_normal(pairs).tolist(),
        prob_a=(-rng.random(pairs) - 0.5).tolist(),
        prob_b=(rng.standard_normal(pairs) * 0.1).tolist(),
        **words,
    )
    key = STRING if isinstance(labels[0], str) else INT64
    outputs = [
        helper.make_tensor_value_info("label", key, None),
        helper.make_tensor_value_info("p", FLOAT, None),
    ]
    x = rng.standard_normal((20, features)).astype(np.float32)
    ours, theirs = both([node], {"x": (FLOAT, ["n", features])}, outputs, {"x": x})
    assert ours[0].tolist() == theirs[0].tolist()
    np.testing.assert_allclose(ours[1], theirs[1], atol=2e-3)


def test_category_mapper() -> None:
    cats = {"cats_strings": ["a", "b", "c"], "cats_int64s": [7, 8, 9]}
    to_numbers = helper.make_node(
        "CategoryMapper", ["x"], ["y"], domain=ML, default_int64=-5, **cats
    )
    back = helper.make_node("CategoryMapper", ["y"], ["z"], domain=ML, default_string="?", **cats)
    outputs = [
        helper.make_tensor_value_info("y", INT64, None),
        helper.make_tensor_value_info("z", STRING, None),
    ]
    x = np.array([["b", "q"], ["c", "a"]], dtype=object)
    ours, theirs = both([to_numbers, back], {"x": (STRING, ["n", 2])}, outputs, {"x": x})
    for a, b in zip(ours, theirs, strict=True):
        assert a.tolist() == b.tolist()


def test_strings_to_features() -> None:
    """A column of words: normalised, encoded, one-hot, and counted.

    onnxruntime needs a locale of the machine for the first of these: results are written out.
    """
    nodes = [
        helper.make_node(
            "StringNormalizer", ["x"], ["low"], case_change_action="LOWER", is_case_sensitive=0
        ),
        helper.make_node(
            "LabelEncoder",
            ["low"],
            ["code"],
            domain=ML,
            keys_strings=["red", "green", "blue"],
            values_int64s=[0, 1, 2],
            default_int64=-1,
        ),
        helper.make_node(
            "OneHotEncoder", ["low"], ["hot"], domain=ML, cats_strings=["blue", "red"], zeros=1
        ),
        helper.make_node(
            "TfIdfVectorizer",
            ["low"],
            ["counts"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            ngram_counts=[0],
            ngram_indexes=[1, 0],
            pool_strings=["red", "blue"],
        ),
    ]
    outputs = [
        helper.make_tensor_value_info("code", INT64, None),
        helper.make_tensor_value_info("hot", FLOAT, None),
        helper.make_tensor_value_info("counts", FLOAT, None),
    ]
    x = np.array(["Red", "BLUE", "pink", "red"], dtype=object)
    model = model_of(nodes, {"x": (STRING, ["n"])}, outputs)
    code, hot, counts = gex.onnx.loads(model).run({"x": x})
    np.testing.assert_array_equal(code, [0, 2, -1, 0])
    np.testing.assert_array_equal(hot, [[0, 1], [1, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(counts, [1, 2])


@pytest.mark.parametrize("labels", [[0, 1], [4, 7, 9], ["no", "maybe", "yes"]])
def test_svm_classifier_without_probabilities(labels: list[Any]) -> None:
    """SVC() of scikit-learn: labels by votes of the pairs, and the values of the pairs."""
    rng = np.random.default_rng(3)
    classes, features = len(labels), 4
    per_class = [5, 4, 6][:classes]
    total = sum(per_class)
    kind = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints"
    attributes = {
        "coefficients": rng.standard_normal((classes - 1) * total).tolist(),
        "support_vectors": rng.standard_normal(total * features).tolist(),
        "rho": rng.standard_normal(classes * (classes - 1) // 2).tolist(),
        "vectors_per_class": per_class,
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 3.0],
        "post_transform": "NONE",
        kind: labels,
    }
    node = helper.make_node("SVMClassifier", ["x"], ["label", "scores"], domain=ML, **attributes)
    outputs = [
        helper.make_tensor_value_info("label", STRING if "strings" in kind else INT64, ["n"]),
        helper.make_tensor_value_info("scores", FLOAT, ["n", None]),
    ]
    x = rng.standard_normal((40, features)).astype(np.float32)
    ours, theirs = both([node], {"x": (FLOAT, ["n", features])}, outputs, {"x": x})
    assert ours[0].tolist() == theirs[0].tolist() and len(set(ours[0].tolist())) > 1
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-4, atol=1e-5)


def test_linear_classifier_of_unknown_width() -> None:
    rng = np.random.default_rng(4)
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain=ML,
        coefficients=rng.standard_normal(12).tolist(),
        intercepts=[0.1, 0.2, 0.3],
        classlabels_ints=[0, 1, 2],
    )
    outputs = [
        helper.make_tensor_value_info("label", INT64, ["n"]),
        helper.make_tensor_value_info("scores", FLOAT, ["n", 3]),
    ]
    x = rng.standard_normal((5, 4)).astype(np.float32)
    ours, theirs = both([node], {"x": (FLOAT, ["n", None])}, outputs, {"x": x})
    assert ours[0].tolist() == theirs[0].tolist()
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)


# Two trees: feature 0 against 0.5, then feature 1 against -0.2 in the second.
FOREST: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
    "nodes_featureids": [0, 0, 0, 0, 0, 1, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0, 0.5, 0.0, -0.2, 0.0, 0.0],
    "nodes_modes": [
        *("BRANCH_LEQ", "LEAF", "LEAF"),
        *("BRANCH_LT", "LEAF", "BRANCH_GT", "LEAF", "LEAF"),
    ],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 3, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 4, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 1, 0, 0],
    "class_treeids": [0, 0, 1, 1, 1, 1],
    "class_nodeids": [1, 2, 1, 3, 4, 4],
    "class_ids": [0, 1, 2, 1, 0, 2],
    "class_weights": [0.3, 0.6, 0.2, 0.5, 0.1, 0.4],
    "post_transform": "NONE",
}


@pytest.mark.parametrize("labels", [[3, 5, 9], ["no", "maybe", "yes"]])
def test_classifiers_become_model_files(labels: list[Any], tmp_path: pathlib.Path) -> None:
    """What scikit-learn exports: trees, and probabilities as maps.

    In a file, maps are a tensor with a column for each class, and labels that are strings are
    their places.
    """
    strings = isinstance(labels[0], str)
    kind = "classlabels_strings" if strings else "classlabels_int64s"
    nodes = [
        helper.make_node(
            "TreeEnsembleClassifier",
            ["x"],
            ["label", "scores"],
            domain=ML,
            **FOREST,
            **{kind: labels},
        ),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, **{kind: labels}),
    ]
    outputs = [
        helper.make_tensor_value_info("label", STRING if strings else INT64, ["n"]),
        maps("maps", STRING if strings else INT64),
    ]
    x = np.random.default_rng(5).standard_normal((150, 2)).astype(np.float32)
    x[::7, 0] = np.nan
    x[3::7, 1] = np.nan
    inputs = {"x": (FLOAT, ["n", 2])}
    ours, theirs = both(nodes, inputs, outputs, {"x": x})
    assert ours[0].tolist() == theirs[0].tolist()
    scores = np.array([[row[label] for label in labels] for row in theirs[1]])
    np.testing.assert_allclose([[row[label] for label in labels] for row in ours[1]], scores)
    (tmp_path / "m.onnx").write_bytes(model_of(nodes, inputs, outputs))
    words = [GEX, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.gexe"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    listed = ", ".join(str(label) for label in labels)
    assert (
        f"output 'maps' (maps) becomes a tensor with a column for each of: {listed}" in made.stderr
    )
    for trust in (True, False):
        label, p = gex.load(tmp_path / "m.gexe", trust=trust)(x)
        np.testing.assert_allclose(p, scores, rtol=1e-6)
        places = sorted(labels) if strings else labels
        given = [places[k] for k in label] if strings else label.tolist()
        assert given == theirs[0].tolist()


CYCLE: dict[str, Any] = {
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", *FOREST["nodes_modes"][2:]],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 3, 0, 0],
    "nodes_falsenodeids": [2, 2, 0, 2, 0, 4, 0, 0],
}


def test_trees_that_are_wrong_are_refused() -> None:
    for change, word in (
        (CYCLE, "cycle"),
        ({"nodes_falsenodeids": [7, 0, 0, 2, 0, 4, 0, 0]}, "does not exist"),
        ({"nodes_featureids": [1 << 40, 0, 0, 0, 0, 1, 0, 0]}, "feature"),
        ({"class_ids": [0, 1, 9, 1, 0, 2]}, "target"),
    ):
        attributes = {**FOREST, **change, "classlabels_int64s": [0, 1, 2]}
        node = helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain=ML, **attributes
        )
        outputs = [helper.make_tensor_value_info("label", INT64, ["n"])]
        model = gex.onnx.loads(model_of([node], {"x": (FLOAT, ["n", 2])}, outputs))
        with pytest.raises(gex.Error, match=word):
            model.run([np.zeros((1, 2), np.float32)])


def stump(op: str, ids: list[int], weights: list[float], **attributes: Any) -> tuple[Any, Any]:
    """One tree with leaves for x <= 0 and x > 0: what gex and onnxruntime give for -1 and 1."""
    prefix = "class" if op == "TreeEnsembleClassifier" else "target"
    leaves = {f"{prefix}_treeids": [0, 0], f"{prefix}_nodeids": [1, 2]}
    leaves |= {f"{prefix}_ids": ids, f"{prefix}_weights": weights}
    names = ["label", "scores"] if prefix == "class" else ["scores"]
    node = helper.make_node(
        op,
        ["x"],
        names,
        domain=ML,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        **leaves,
        **attributes,
    )
    outputs = [
        helper.make_tensor_value_info(name, INT64 if name == "label" else FLOAT, None)
        for name in names
    ]
    x = np.array([[-1], [1]], np.float32)
    return both([node], {"x": (FLOAT, ["n", 1])}, outputs, {"x": x})


@pytest.mark.parametrize("weight", [-0.45, 0.3, 0.7])
@pytest.mark.parametrize("scored", [0, 1])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_two_classes_of_which_trees_score_one(weight: float, scored: int, transform: str) -> None:
    ours, theirs = stump(
        "TreeEnsembleClassifier",
        [scored, scored],
        [weight, weight / 2],
        post_transform=transform,
        classlabels_int64s=[4, 7],
    )
    assert ours[0].tolist() == theirs[0].tolist()
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


def test_a_classifier_of_one_class() -> None:
    ours, theirs = stump("TreeEnsembleClassifier", [0, 0], [0.3, -0.4], classlabels_int64s=[1])
    assert ours[0].tolist() == theirs[0].tolist() == [1, 0]
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


def test_softmax_of_the_scores_that_are_not_zero() -> None:
    ours, theirs = stump(
        "TreeEnsembleClassifier",
        [0, 2],
        [0.3, 0.4],
        classlabels_int64s=[0, 1, 2],
        post_transform="SOFTMAX_ZERO",
    )
    assert ours[1].tolist() == theirs[1].tolist() == [[1, 0, 0], [0, 0, 1]]
    weights = {"coefficients": [0.0, 1.0, -2.0], "intercepts": [0.0, 0.5, 0.0]}
    node = helper.make_node(
        "LinearRegressor",
        ["x"],
        ["y"],
        domain=ML,
        targets=3,
        post_transform="SOFTMAX_ZERO",
        **weights,
    )
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    x = np.array([[1], [-0.5], [3]], np.float32)
    ours, theirs = both([node], {"x": (FLOAT, ["n", 1])}, outputs, {"x": x})
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)


def test_scores_without_a_leaf() -> None:
    """By the text of the operators: base values are added to each score, the top class wins.

    onnxruntime gives 0 for such targets, and never the label of such a class (docs/onnx.md).
    """
    base = [0.125, 0.25, 0.5]
    for fold in ("SUM", "AVERAGE", "MIN", "MAX"):
        ours, theirs = stump(
            "TreeEnsembleRegressor",
            [0, 1],
            [1.0, -1.0],
            n_targets=3,
            base_values=base,
            aggregate_function=fold,
        )
        assert ours[0].tolist() == [[1.125, 0.25, 0.5], [0.125, -0.75, 0.5]]
        assert theirs[0].tolist() == [[1.125, 0, 0], [0, -0.75, 0]]
    labels = {"classlabels_int64s": [5, 7, 9]}
    ours, theirs = stump("TreeEnsembleClassifier", [0, 1], [-0.5, -0.25], **labels)
    assert ours[1].tolist() == theirs[1].tolist() == [[-0.5, 0, 0], [0, -0.25, 0]]
    assert (ours[0].tolist(), theirs[0].tolist()) == ([7, 5], [5, 7])
