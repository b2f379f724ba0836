"""Classical models of ai.onnx.ml as scikit-learn exports them, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import gex.onnx

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
