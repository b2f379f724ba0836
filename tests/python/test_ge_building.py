"""GE's acceptance cases on building graphs, through gex.es."""

import copy
import math
import re

import numpy as np
import pytest

from gex import es


def ops_of(graph):
    return re.findall(r" = (\w+)\(", graph.print())


def test_case_1_add_of_relu_of_relu():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [2, 3])
    graph = builder.Build([es.add(x, es.relu(es.relu(x)))])
    assert sorted(ops_of(graph)) == ["add", "relu", "relu"]
    (y,) = graph.run([np.ones((2, 3), np.float32)])
    np.testing.assert_array_equal(y, np.full((2, 3), 2.0, np.float32))


def test_case_2_operators():
    builder = es.EsGraphBuilder("g")
    a, b = builder.CreateInputs(2)
    graph = builder.Build([(a + b) + (a - b) + (a * b) + (a / b)])
    assert sorted(ops_of(graph)) == ["add"] * 4 + ["div", "mul", "sub"]
    (y,) = graph.run([np.float32(6).reshape(()), np.float32(2).reshape(())])
    assert y == 27


def test_case_3_the_talks_graph_dumps_as_from_c_and_cpp():
    builder = es.EsGraphBuilder("talk")
    data0 = builder.CreateInput(0)
    builder.SetOutput(data0 - builder.CreateVector([0]), 0)
    assert builder.Build().print_abbreviated() == (
        "graph talk(%input_0: f32[]) -> (f32[1]) {\n"
        "  %Const_0 = constant() {value = i64[1](0)} : i64[1]\n"
        "  %0 = cast(%Const_0) : f32[1]\n"
        "  %Sub_1 = sub(%input_0, %0) : f32[1]\n"
        "  return %Sub_1\n"
        "}\n"
    )


def test_case_4_matmul_with_a_transposed_operand():
    builder = es.GraphBuilder("g")
    x = builder.create_input(0, data_type="f32", shape=[2, 3])
    w = builder.create_const_float([[1, 2, 3], [4, 5, 6]])
    graph = builder.build_and_reset([es.transpose(x, perm=[1, 0]) @ w])
    (y,) = graph.run([np.ones((2, 3), np.float32)])
    np.testing.assert_array_equal(y, np.array([[5, 7, 9]] * 3, np.float32))


def test_case_5_batch_norm_with_absent_optional_inputs():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [1, 3, 1, 2])
    y = es.batch_norm(x, None, None, np.float32([2, 4, 6]), np.float32([0.5] * 3), eps=1e-4)
    (got,) = builder.Build([y]).run([np.arange(1, 7, dtype=np.float32).reshape(1, 3, 1, 2)])
    np.testing.assert_allclose(got.reshape(3, 2), [[-1.41407, 0]] * 3, atol=1e-5)


def test_case_6_cat_of_three():
    builder = es.EsGraphBuilder("g")
    xs = [builder.CreateInput(k, None, "f32", [n, 64, 128]) for k, n in enumerate((8, 2, 6))]
    arrays = [np.full((n, 64, 128), k + 1, np.float32) for k, n in enumerate((8, 2, 6))]
    (y,) = builder.Build([es.cat(xs, axis=0)]).run(arrays)
    np.testing.assert_array_equal(y, np.concatenate(arrays))


def test_case_7_split():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [8, 16, "s0"])
    with pytest.raises(ValueError, match="not divisible by 3"):
        es.split(x, 3)
    graph = builder.Build(es.split(x, 4))
    array = np.random.default_rng(0).random((8, 16, 64), np.float32)
    for got, expected in zip(graph.run([array]), np.split(array, 4)):
        np.testing.assert_array_equal(got, expected)


def test_case_8_if():
    builder = es.EsGraphBuilder("g")
    condition = builder.CreateInput(0, "condition", "bool")
    x = builder.CreateInput(1, "x", "f32", [2])
    results = es.if_(condition, [x], lambda x: x * 2, lambda x: x * 0)
    program = builder.Build(results).compile()
    values = np.float32([1, 2])
    np.testing.assert_array_equal(program.run([np.array(True), values])[0], [2, 4])
    np.testing.assert_array_equal(program.run([np.array(False), values])[0], [0, 0])


def test_case_8_while_sums_to_5050():
    builder = es.EsGraphBuilder("g")
    limit = builder.CreateInput(0, "limit", "i64")
    _, total = es.while_(
        [0, 0, limit],
        lambda k, total, limit: es.lt(k, limit),
        lambda k, total, limit: (k + 1, total + k + 1),
    )
    assert builder.Build([total]).run([np.array(100)])[0] == 5050


def test_case_8_for_counts_to_a_limit():
    builder = es.EsGraphBuilder("g")
    limit = builder.CreateInput(0, "limit", "i64")
    results = es.for_(0, limit, 1, [0], lambda k, total: total * 10 + k)
    program = builder.Build(results).compile()
    assert [int(program.run([np.array(n)])[0]) for n in (0, 1, 5)] == [0, 0, 1234]


def test_case_8_a_branch_sees_only_its_inputs():
    builder = es.EsGraphBuilder("g")
    condition = builder.CreateInput(0, "condition", "bool")
    x = builder.CreateInput(1, "x", "f32", [2])
    with pytest.raises(ValueError, match="is a tensor of builder 'g'; pass it in as an input"):
        es.if_(condition, [], lambda: x * 2, lambda: x)
    with pytest.raises(ValueError, match="operands of two builders"):
        es.if_(condition, [x], lambda y: y + x, lambda y: y)
    (constant,) = es.if_(condition, [x], lambda x: [[1.0, 2.0]], lambda x: [[3.0, 4.0]])
    assert constant.type == "f32[2]"


def test_case_9_a_control_edge_from_assign_reads_the_new_value():
    builder = es.EsGraphBuilder("g")
    v = builder.create_variable(0, "v", "f32", [2])
    assign = es.assign(v, [3, 4])
    one_two = [1, 2]
    with es.control_dependency_scope([assign]):
        inside = v + one_two
    outside = v + one_two
    builder.add_control_dependency(outside, [assign])
    program = builder.Build([inside, outside]).compile()
    memory = np.float32([7, 7])
    for _ in range(3):
        for result in program.run([memory]):
            np.testing.assert_array_equal(result, [4, 6])
        np.testing.assert_array_equal(memory, [3, 4])


def test_case_10_nodes_with_different_labels_are_not_merged():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0)
    parts = [es.sigmoid(x).set_attr("_stream_label", f"label_{k}") for k in range(2)]
    program = builder.Build([parts[0] + parts[1]]).compile()
    assert program.print("graph").count(" = sigmoid(") == 2
    (y,) = program.run([np.float32(1).reshape(())])
    assert y == pytest.approx(1.4621172)


def test_case_11_wrong_indices_are_named():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0)
    with pytest.raises(ValueError, match="input 0 already exists"):
        builder.CreateInput(0)
    with pytest.raises(ValueError, match="input -1"):
        builder.CreateInput(-1)
    with pytest.raises(ValueError, match="Foo"):
        builder.create_input(1, type_str="Foo")
    builder.CreateInput(2)
    builder.SetOutput(x, 0)
    with pytest.raises(ValueError, match="input 2 but no input 1"):
        builder.Build()
    builder.CreateInput(1)
    builder.SetOutput(x, 2)
    with pytest.raises(ValueError, match="output 2 but no output 1"):
        builder.Build()


def test_case_12_a_built_builder_refuses_everything():
    builder = es.EsGraphBuilder("done")
    x = builder.CreateInput(0)
    builder.SetAttr("version", 3)
    assert builder.Build([x]).get_attr("version") == "3"
    calls = [
        builder.Build,
        lambda: builder.CreateInput(1),
        lambda: builder.SetAttr("a", "b"),
        lambda: builder.SetOutput(x, 1),
        lambda: x + 1,
    ]
    for call in calls:
        with pytest.raises(es.EsError, match="'done' is already built"):
            call()


def test_case_13_holders_of_two_builders():
    one, two = es.EsGraphBuilder("one"), es.EsGraphBuilder("two")
    a, b = one.CreateInput(0), two.CreateInput(0)
    with pytest.raises(ValueError, match="operands of two builders, 'one' and 'two'"):
        a + b
    with pytest.raises(ValueError, match="'two', not of 'one'"):
        one.SetOutput(b, 0)


def test_case_14_bad_values():
    builder = es.EsGraphBuilder("g")
    with pytest.raises(ValueError, match=r"3 values for the shape \[2, 2\], which has 4"):
        builder.create_const_int64([1, 2, 3], shape=[2, 2])
    with pytest.raises(ValueError, match="-1 is not a uint32"):
        builder.create_scalar_uint32(-1)
    with pytest.raises(ValueError, match=r"2\.5 is not an? int32"):
        builder.create_scalar_int32(2.5)
    with pytest.raises(RuntimeError, match="made by an EsGraphBuilder"):
        es.TensorHolder()
    with pytest.raises(TypeError):
        builder.CreateInput(0) + object()
    for thing in (builder, builder.CreateInput(1), builder.Build([])):
        with pytest.raises(RuntimeError, match="can't be copied"):
            copy.deepcopy(thing)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("f32", "f32"), ("f16", "f16"), ("i32", "i32"), ("bool", "i64")],
)
def test_case_15_numbers_and_lists_take_the_dtype_of_the_tensor(dtype, expected):
    builder = es.EsGraphBuilder("g")
    t = builder.CreateInput(0, "t", dtype, [2, 2])
    row = [1, 2]
    for result in (t + 2, 2 - t, t * [[1, 2], [3, 4]], row + t):
        assert result.type == f"{expected}[2, 2]"
    text = builder.Build([t * [[1, 2], [3, 4]]]).print()
    assert f"{expected}[2, 2](" in text


def test_case_15_ragged_lists():
    builder = es.EsGraphBuilder("g")
    t = builder.CreateInput(0, "t", "f32", [2, 2])
    with pytest.raises(ValueError, match="ragged"):
        t * [[1, 2], [3]]
    with pytest.raises(ValueError, match="ragged"):
        t * [[1, 2], 3]
    with pytest.raises(ValueError, match="no operand is a tensor"):
        es.add(1, 2)


def test_case_16_attr_scopes_nest():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0)
    with es.attr_scope({"a": "1"}):
        with es.attr_scope({"a": "2", "b": "3"}):
            inner = es.relu(x)
        outer = es.relu(x)
    after = es.relu(x)
    assert (inner.get_attr("a"), inner.get_attr("b")) == ('"2"', '"3"')
    assert outer.get_attr("a") == '"1"'
    for holder, name in ((outer, "b"), (after, "a")):
        with pytest.raises(ValueError, match="no label"):
            holder.get_attr(name)


def test_case_17_constants_from_files(tmp_path):
    path = tmp_path / "values.bin"
    np.float32([1, 2, 3]).tofile(path)
    builder = es.EsGraphBuilder("g")
    with pytest.raises(ValueError, match=r"12 bytes, but f32\[4\] takes 16"):
        builder.CreateConstFromFile(path, "f32", [4])
    with pytest.raises(ValueError, match="2 values for the shape"):
        builder.CreateConst([1, 2], [3])
    constant = builder.CreateConstFromFile(path, "f32", [2])
    half = builder.CreateConst([1.5, 2], dtype="f16")
    flags = builder.CreateConst([True, False])
    assert (half.type, flags.type) == ("f16[2]", "bool[2]")
    got = builder.Build([constant + 0, half + 0]).run([])
    np.testing.assert_array_equal(got[0], [1, 2])
    np.testing.assert_array_equal(got[1], np.float16([1.5, 2]))


def test_case_18_and_19_branches_made_by_hand():
    def branch(name, results):
        builder = es.EsGraphBuilder(name)
        x = builder.CreateInput(0)
        return builder.Build([-x] * results)

    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0)
    condition = builder.CreateScalar(True)
    with pytest.raises(ValueError, match="named 'same'"):
        es.if_graphs(condition, [x], 1, branch("same", 1), branch("same", 1))
    with pytest.raises(ValueError, match="if has 2 results, but there is room for 1"):
        es.if_graphs(condition, [x], 1, branch("a", 2), branch("b", 2))


def test_case_22_a_readable_dump_abbreviates_constants(tmp_path):
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", [100])
    graph = builder.Build([x + (np.arange(100, dtype=np.float32) / 2)])
    graph.dump_to_file(tmp_path / "g.txt")
    text = (tmp_path / "g.txt").read_text()
    assert "f32[100](0.0, 0.5, 1.0, ..., 48.5, 49.0, 49.5)" in text
    assert es.Graph.parse(graph.print()).print() == graph.print()


def test_case_22_an_onnx_dump_parses_as_onnx(tmp_path, monkeypatch):
    text_format = pytest.importorskip("google.protobuf.text_format")
    from onnx_schema import model_class

    monkeypatch.chdir(tmp_path)
    builder = es.EsGraphBuilder("dumped")
    x = builder.CreateInput(0, "x", "f32", ["s0", 4])
    flag = builder.CreateInput(1, "flag", "bool", [])
    y = es.softmax(x + np.float32([1.5, -2, 0, 4]), axis=1)
    y.set_attr("_stream_label", 'a "b"\n')
    (z,) = es.if_(flag, [y], lambda y: y * 2.0, lambda y: es.reshape(y, shape=["s0", 4]))
    graph = builder.Build([z])
    path = graph.dump_to_file(format="onnx", suffix="s")
    assert path.match("ge_onnx_*_s.pbtxt")
    model = text_format.Parse(path.read_text(), model_class()())
    nodes = {node.op_type: node for node in model.graph.node}
    assert set(nodes) == {"constant", "add", "softmax", "if"}
    assert [i.name for i in model.graph.input] == ["x", "flag"]
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    assert (sizes[0].dim_param, sizes[1].dim_value) == ("s0", 4)
    assert nodes["add"].input[0] == "x" and nodes["add"].output == nodes["softmax"].input
    attrs = {a.name: a for a in nodes["softmax"].attribute}
    assert attrs["axis"].i == 1 and attrs["label._stream_label"].s == b'a "b"\n'
    constant = nodes["constant"].attribute[0].t
    assert list(constant.dims) == [4] and constant.data_type == 1
    assert constant.raw_data == np.float32([1.5, -2, 0, 4]).tobytes()
    branches = [a.g for a in nodes["if"].attribute if a.HasField("g")]
    assert [[n.op_type for n in b.node][-1] for b in branches] == ["mul", "reshape"]
    # A library that reads ONNX fails at our ops, which are not its own.
    runtime = pytest.importorskip("onnxruntime")
    with pytest.raises(Exception, match=r"softmax|add|gex"):
        runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="unknown format 'json'; use one of readable, txt, onnx"):
        graph.dump_to_file(format="json")


def test_a_wrong_shape_raises_at_the_call_with_both_shapes():
    builder = es.EsGraphBuilder("g")
    a = builder.CreateInput(0, "a", "f32", [2, 3])
    b = builder.CreateInput(1, "b", "f32", [4])
    with pytest.raises(ValueError, match=r"\[2, 3\].*\[4\]"):
        a + b
    # The builder stays usable.
    builder.Build([a + a])


def test_typed_functions_take_attributes_by_name_and_give_named_results():
    builder = es.EsGraphBuilder("g")
    x = builder.CreateInput(0, "x", "f32", ["s0", 6])
    assert es.softmax(x, axis=-1).type == "f32[s0, 6]"
    assert es.reduce_sum(x, axes=[-1, 0], keepdim=True).type == "f32[1, 1]"
    assert es.reshape(x, shape=["s0*2", 3]).type == "f32[s0*2, 3]"
    assert es.cast(x, dtype=np.float64).type == "f64[s0, 6]"
    assert es.iota(builder, size="s0 + 1").type == "i64[s0 + 1]"
    normed = es.layer_norm(x, np.ones(6, np.float32), rank=1)
    assert normed.result.type == "f32[s0, 6]" and normed.mean.type == "f32[s0, 1]"
    with pytest.raises(TypeError):
        es.softmax(x, 1)
    with pytest.raises(ValueError, match="axis"):
        es.softmax(x, axis=2)
    divided = es.rms_norm(x, eps=0.5, divide=True).result
    assert "{eps = 0.5, divide = true}" in str(builder.Build([divided]))


def test_one_program_runs_for_every_size():
    builder = es.EsGraphBuilder("linear")
    builder.DeclareSize("rows", 1, 64)
    x = builder.CreateInput(0, "x", "f32", ["rows", 4])
    w = builder.CreateInput(1, "w", "f32", [4, 3])
    program = builder.Build([es.gelu(x @ w + 1)]).compile()
    generator = np.random.default_rng(0)
    weights = generator.random((4, 3), np.float32)
    for rows in (1, 5, 1):
        values = generator.random((rows, 4), np.float32)
        (got,) = program.run([values, weights])
        z = values @ weights + 1
        erf = np.vectorize(math.erf)(z / np.sqrt(2))
        np.testing.assert_allclose(got, z / 2 * (1 + erf), rtol=1e-5)
    assert program.counters()["captures"] == 2
    assert "launch" in program.print("program")
    # Inputs that are only read may have any layout.
    ones = np.ones((1, 4), np.float32)
    (want,) = program.run([ones, weights])
    np.testing.assert_array_equal(program.run([ones, np.asfortranarray(weights)])[0], want)
    with pytest.raises(ValueError, match="float64"):
        program.run([np.ones((1, 4), np.uint16), weights])
    with pytest.raises(ValueError, match="64"):
        program.run([np.ones((65, 4), np.float32), weights])
