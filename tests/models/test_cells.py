"""Every cell by itself and in layers, against its equations."""

import functools
import itertools
import typing

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import keras_recurrent
from models.cells.kinds import CELLS, make_layer, shapes_of, state_shapes
from models.cells.options import CELL_OPTIONS, UNBRIDGEABLE
from models.errors import UserError
from models.recurrent import RecurrentStack
from pipeline.experiment import CellOptions, ModelSection
from tests.models.examples import (
    MODELS,
    close,
    make_model,
    mask_of,
    random_tensor,
    randomize,
    sentences,
    shifted,
)
from tests.models.reference.gradients import assert_same_loss_and_gradients
from tests.models.reference.recurrent import STEPS, part_sizes, run_layer, run_stack
from tests.models.test_translation import search_options

FEATURES, UNITS = 3, 4
LENGTHS = [3, 1, 4]
ROWS, POSITIONS = len(LENGTHS), 5
DROPPED = {"inputs": 0.4, "recurrent": 0.5}

SIMPLE = [name for name in CELLS if name.endswith("_rnn")]
OURS = [name for name in STEPS if CELLS[name].cell is not None]
NTM = {"cell": "ntm", "cell_options": {"memory_rows": 5, "memory_features": 2, "read_heads": 2}}

every_cell = pytest.mark.parametrize("cell", STEPS)
each_of_ours = pytest.mark.parametrize("cell", OURS)
every_simple_cell = pytest.mark.parametrize("cell", SIMPLE)
every_merge = pytest.mark.parametrize("merge", ["concat", "sum"])


def make(cell, options=None, **settings):
    """A built layer of one direction with random weights."""
    settings = {"return_sequences": True, "return_state": True, **settings}
    layer = make_layer(cell, UNITS, options, **settings)
    layer.build((None, None, FEATURES))
    return randomize(layer)


def inputs(lengths=LENGTHS, positions=POSITIONS):
    return random_tensor(len(lengths), positions, FEATURES), mask_of(lengths, positions)


def real(outputs, lengths=LENGTHS):
    """Outputs with whatever stands at pads made zero."""
    return np.where(mask_of(lengths, outputs.shape[1])[..., tf.newaxis], outputs, 0.0)


def loss_of(layer, sequences, mask, **given):
    """A number that all outputs and last states have a part in."""
    outputs, *states = layer(sequences, mask=mask, **given)
    weights = tf.cast(mask[..., tf.newaxis], outputs.dtype)
    return tf.reduce_sum(weights * outputs**2) + sum(tf.reduce_sum(s**3) for s in states)


def gradients_of(layer, sequences, mask, **given):
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        loss = loss_of(layer, sequences, mask, **given)
    return [loss, *tape.gradient(loss, variables)]


def test_all_lists_of_cells_are_the_same():
    """The layers, what they take, the keys of an experiment and the reference."""
    assert list(CELLS) == list(CELL_OPTIONS) == [*STEPS, "ntm"]  # held in test_memory.py
    assert tuple(CELLS) == typing.get_args(ModelSection.model_fields["cell"].annotation)
    known = {key for keys in CELL_OPTIONS.values() for key in keys}
    assert known == set(CellOptions.model_fields)


@every_cell
def test_a_state_has_its_names_and_sizes(cell):
    kind = CELLS[cell]
    sizes = [size for (size,) in state_shapes(cell, UNITS)]
    assert sizes == part_sizes(cell, UNITS)
    assert kind.state._fields == ("hidden", "memory")[: len(sizes)]
    assert cell not in UNBRIDGEABLE


@pytest.mark.usefixtures("float64")
@every_cell
def test_forward_is_the_equation(cell):
    layer = make(cell)
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    wanted, final = run_layer(cell, sequences.numpy(), LENGTHS, layer.get_weights())
    close(real(outputs), wanted)
    close(tuple(states), final)


@pytest.mark.usefixtures("float64")
@every_cell
def test_gradients_are_those_of_the_equation(cell):
    """Into inputs, first states and every weight."""
    lengths = [2, 3]
    layer = make(cell)
    sequences, mask = inputs(lengths, 4)
    first = [
        random_tensor(2, size, seed=7 + part) for part, size in enumerate(part_sizes(cell, UNITS))
    ]

    def reference(arrays):
        outputs, states = run_layer(
            cell, arrays["inputs"], lengths, arrays["weights"], initial=arrays["first"]
        )
        return (outputs**2).sum() + sum((state**3).sum() for state in states)

    variables = {"inputs": sequences, "first": first, "weights": layer.trainable_variables}
    loss = functools.partial(loss_of, layer, sequences, mask, initial_state=first)
    assert_same_loss_and_gradients(loss, variables, reference)


@pytest.mark.usefixtures("float64")
@every_cell
@every_merge
def test_both_directions_under_padding_are_the_equation(cell, merge):
    stack = RecurrentStack(cell, UNITS, 2, True, merge=merge)
    stack.build((None, None, FEATURES))
    randomize(stack)
    sequences, mask = inputs()
    outputs, finals = stack(sequences, mask=mask)
    wanted, forward, backward = run_stack(
        cell, sequences.numpy(), LENGTHS, stack.get_weights(), True, merge=merge
    )
    assert outputs.shape[-1] == stack.output_size
    close(real(outputs), wanted)
    close((finals.forward, finals.backward), (tuple(forward), tuple(backward)))


@every_cell
def test_a_left_out_step_leaves_the_state_as_it_is_whatever_stands_there(cell):
    layer = make(cell)
    sequences, mask = inputs()
    garbage = tf.where(mask[..., tf.newaxis], sequences, 1e30)
    outputs, *states = layer(garbage, mask=mask)
    close(real(outputs), real(layer(sequences, mask=mask)[0]), 1e-6)
    for row, length in enumerate(LENGTHS):
        alone = layer(sequences[row : row + 1, :length])
        close([state[row] for state in states], [state[0] for state in alone[1:]], 1e-6)


@every_cell
def test_a_backward_layer_starts_at_the_last_real_step(cell):
    layer, back = make(cell), make(cell, go_backwards=True)
    sequences, mask = inputs()
    outputs, *states = back(sequences, mask=mask)
    turned = tf.reverse_sequence(sequences, LENGTHS, 1)
    wanted, *ends = layer(turned, mask=mask)
    close(states, ends, 1e-6)
    for row, length in enumerate(LENGTHS):
        close(outputs[row, POSITIONS - length :], wanted[row, :length], 1e-6)


@every_cell
def test_steps_give_what_the_whole_sequence_gives(cell):
    layer = make(cell)
    sequences, _ = inputs()
    outputs, *ends = layer(sequences)
    states = layer.get_initial_state(ROWS)
    for position in range(POSITIONS):
        output, states = layer.step(sequences[:, position], states)
        close(output, outputs[:, position], 1e-6)
    close(states, ends, 1e-6)


@each_of_ours
def test_a_cell_of_ours_works_in_a_plain_keras_layer(cell):
    layer = make(cell)
    plain = keras.layers.RNN(layer.cell, return_sequences=True, return_state=True)
    sequences, mask = inputs()
    close(gradients_of(plain, sequences, mask), gradients_of(layer, sequences, mask))
    close(plain(sequences, mask=mask), layer(sequences, mask=mask), 1e-6)


@every_cell
def test_a_layer_made_from_its_serialized_configuration_is_equal(cell):
    layer = make(cell, go_backwards=True, variational_dropout=DROPPED, name="reader")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer) and again.get_config() == layer.get_config()
    again.build((None, None, FEATURES))
    again.set_weights(layer.get_weights())
    sequences, mask = inputs()
    close(again(sequences, mask=mask), layer(sequences, mask=mask), 0.0)


@every_cell
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_under_half_precision_all_is_finite_and_weights_stay_float32(cell, policy, request):
    request.getfixturevalue(policy)
    layer = make(cell, variational_dropout=DROPPED)
    sequences, mask = inputs([0, *LENGTHS[1:]])
    for training in (False, True):
        for part in layer(sequences, mask=mask, training=training):
            assert part.dtype == layer.compute_dtype
            assert np.isfinite(tf.cast(part, tf.float32)).all()
        for gradient in gradients_of(layer, sequences, mask, training=training):
            assert np.isfinite(tf.cast(gradient, tf.float32)).all()
    assert all(weight.dtype == "float32" for weight in layer.weights)


@pytest.mark.parametrize("cell", ["simple_rnn", "gru_reset_before", *OURS])
def test_compiled_by_xla_outputs_and_gradients_are_the_same(cell):
    layer = make(cell)
    if hasattr(layer, "use_cudnn"):
        layer.use_cudnn = False
    compiled = tf.function(functools.partial(gradients_of, layer), jit_compile=True)
    close(compiled(*inputs()), gradients_of(layer, *inputs()))


@every_cell
def test_in_a_graph_sizes_may_be_unknown_and_there_may_be_no_rows(cell):
    layer = make(cell)
    specs = [tf.TensorSpec([None, None, FEATURES]), tf.TensorSpec([None, None], tf.bool)]
    run = tf.function(lambda sequences, mask: layer(sequences, mask=mask), input_signature=specs)
    close(run(*inputs()), layer(inputs()[0], mask=inputs()[1]), 1e-6)
    outputs, *states = run(tf.zeros([0, 4, FEATURES]), tf.ones([0, 4], tf.bool))
    sizes = part_sizes(cell, UNITS)
    assert outputs.shape == (0, 4, sizes[0])
    assert [state.shape for state in states] == [(0, size) for size in sizes]


# Variational dropout.


def masks_to_come(layer, rows=ROWS):
    """The masks that the next run in training will draw."""
    state = layer.seed_generator.state.numpy()
    masks = layer.draw_masks(rows)
    layer.seed_generator.state.assign(state)
    return masks


@pytest.mark.usefixtures("float64")
@every_cell
def test_dropout_is_one_mask_a_sequence_on_what_products_read(cell):
    """On inputs and hidden state, the same at every step; a GRU keeps its state whole."""
    layer = make(cell, variational_dropout=DROPPED)
    sequences, mask = inputs()
    masks = masks_to_come(layer)
    outputs, *states = layer(sequences, mask=mask, training=True)
    arrays = [np.array(each) for each in masks]
    assert any((each == 0.0).any() for each in arrays)
    for each, share in zip(arrays, DROPPED.values(), strict=True):
        kept = each[each != 0.0]
        np.testing.assert_allclose(kept, 1.0 / (1.0 - share), rtol=1e-6)
    weights = layer.get_weights()
    wanted, final = run_layer(cell, sequences.numpy(), LENGTHS, weights, dropped=arrays)
    close(real(outputs), wanted)
    close(tuple(states), final)


@every_cell
def test_steps_with_one_drawing_give_what_the_whole_sequence_gives(cell):
    layer = make(cell, variational_dropout=DROPPED)
    sequences, _ = inputs()
    masks = masks_to_come(layer)
    outputs, *ends = layer(sequences, training=True)
    states = layer.get_initial_state(ROWS)
    for position in range(POSITIONS):
        output, states = layer.step(sequences[:, position], states, masks)
        close(output, outputs[:, position], 1e-6)
    close(states, ends, 1e-6)


@every_cell
def test_masks_are_fresh_each_time_and_the_same_under_a_seed(cell):
    def runs(in_graph=False):
        keras.utils.set_random_seed(3)
        layer = make(cell, variational_dropout=DROPPED)
        run = functools.partial(layer, training=True)
        run = tf.function(run) if in_graph else run
        return [run(inputs()[0])[0] for _ in range(3)]

    first, second, third = runs()
    assert np.abs(first - second).max() > 1e-3 and np.abs(second - third).max() > 1e-3
    close(runs(), [first, second, third], 0.0)
    close(runs(in_graph=True), [first, second, third], 1e-6)


def test_only_training_drops():
    layer = make("lstm", variational_dropout=DROPPED)
    plain = make("lstm")
    close(layer(inputs()[0]), plain(inputs()[0]), 0.0)
    assert np.abs(layer(inputs()[0], training=True)[0] - plain(inputs()[0])[0]).max() > 1e-3


@pytest.mark.parametrize("merge", ["concat", "sum"])
def test_the_generators_are_among_a_models_variables(merge):
    model = make_model(
        variational_dropout=DROPPED,
        encoder={"layers": 2, "units": 2, "bidirectional": True, "merge": merge},
    )
    layers = [*model.encoder.stack.layers, *model.decoder.stack.layers]
    layers = [
        each
        for layer in layers
        for each in (
            [layer.forward_layer, layer.backward_layer]
            if isinstance(layer, keras.layers.Bidirectional)
            else [layer]
        )
    ]
    known = {id(variable) for variable in model.variables}
    assert len(layers) == 5
    assert all(id(layer.seed_generator.state) in known for layer in layers)
    assert len({tuple(layer.seed_generator.state.numpy()) for layer in layers}) == 5


@pytest.mark.parametrize("cell", ["lstm", "gru", "weight_norm_lstm", "weight_norm_gru"])
@pytest.mark.parametrize(
    ("dropped", "fast"), [({}, 1), ({"inputs": 0.5}, 1), ({"inputs": 0.5, "recurrent": 0.5}, 0)]
)
def test_only_dropout_of_the_state_leaves_the_fast_loop(cell, dropped, fast, monkeypatch):
    runs = []
    for module in (keras_recurrent, *_modules_of_cells()):
        for name in ("lstm_recurrence", "gru_recurrence"):
            if hasattr(module, name):
                loop = getattr(module, name)
                counting = lambda *given, loop=loop: runs.append(1) or loop(*given)  # noqa: E731
                monkeypatch.setattr(module, name, counting)
    layer = make(cell, variational_dropout=dropped)
    layer(inputs()[0], training=True)
    assert len(runs) == fast
    layer(inputs()[0])
    assert len(runs) == fast + 1


def _modules_of_cells():
    from models.cells import gru, lstm

    return lstm, gru


# Options.


@pytest.mark.usefixtures("float64")
@every_simple_cell
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_other_activations_are_the_equation(cell, activation):
    layer = make(cell, {"activation": activation})
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    wanted, final = run_layer(
        cell,
        sequences.numpy(),
        LENGTHS,
        layer.get_weights(),
        options={"activation": activation},
    )
    close(real(outputs), wanted)
    close(tuple(states), final)


@every_simple_cell
def test_recurrent_kernels_start_as_they_are_told(cell):
    def kernel(name):
        layer = make_layer(cell, UNITS, {"recurrent_initializer": name}, 0.05)
        layer.build((None, None, FEATURES))
        return np.array(layer.cell.recurrent_kernel)

    close(kernel("identity"), np.eye(UNITS), 0.0)
    orthogonal = kernel("orthogonal")
    close(orthogonal @ orthogonal.T, np.eye(UNITS), 1e-5)
    assert np.abs(kernel("uniform")).max() <= 0.05 and np.abs(kernel(None)).max() <= 0.05


@pytest.mark.parametrize("cell", ["projected_lstm", "peephole_projected_lstm"])
def test_a_projection_is_as_wide_as_it_is_told(cell):
    stack = RecurrentStack(cell, UNITS, bidirectional=True, cell_options={"projection_units": 3})
    assert stack.hidden_size == 3 and stack.output_size == 6
    assert stack.state_shapes == [(3,), (UNITS,)]
    assert [state.hidden.shape[1] for state in stack.first_state(2)] == [3]


@every_cell
def test_an_option_that_a_cell_does_not_take_is_refused_by_the_name_of_its_key(cell):
    values = {"activation": "relu", "recurrent_initializer": "orthogonal", "projection_units": 2}
    for key, value in {**values, "memory_rows": 5}.items():
        if key in CELL_OPTIONS[cell]:
            make_layer(cell, UNITS, {key: value})
            continue
        with pytest.raises(UserError, match=rf"model\.cell_options\.{key} .*'{cell}'.*remove"):
            make_layer(cell, UNITS, {key: value})
        with pytest.raises(ValueError, match=rf"model\.cell_options\.{key}"):
            ModelSection(cell=cell, cell_options={key: value})
    make_layer(cell, UNITS, dict.fromkeys(values))


def test_unknown_names_and_values_are_refused():
    with pytest.raises(UserError, match=r"model\.cell: got 'rnn', expected one of simple_rnn"):
        make_layer("rnn", UNITS)
    with pytest.raises(UserError, match=r"model\.cell_options\.activation: got 'elu', expected"):
        make_layer("simple_rnn", UNITS, {"activation": "elu"})
    with pytest.raises(UserError, match=r"model\.cell_options\.units is 3.*no cell knows it"):
        make_layer("simple_rnn", UNITS, {"units": 3})


# How weights start.


@every_cell
def test_kernels_start_in_the_range_asked_for_and_forget_gates_open(cell):
    layer = make_layer(cell, 20, initializer_range=0.02)
    layer.build((None, None, 40))
    weights = {weight.path.rsplit("/", 1)[1]: weight.numpy() for weight in layer.weights}
    for name, weight in weights.items():
        if name.endswith("kernel") or name == "peephole_weights":
            assert 0.015 < np.abs(weight).max() <= 0.02, name
        elif "bias" in name or "shift" in name:
            opened = cell.endswith("lstm") and name in ("bias", "input_shift")
            wanted = np.repeat([0.0, float(opened), 0.0, 0.0], weight.size // 4)
            if opened:
                np.testing.assert_array_equal(weight, wanted)
            else:
                assert not weight.any(), name
        elif cell.startswith("layer_norm"):
            assert (weight == 1.0).all(), name
    drawn = [w.ravel()[:20] for n, w in weights.items() if n.endswith("kernel") or "peep" in n]
    assert len({tuple(each) for each in drawn}) == len(drawn)


@pytest.mark.parametrize("cell", [name for name in CELLS if name.startswith("weight_norm")])
def test_a_normalized_kernel_starts_as_the_initializer_gives_it(cell):
    layer = make_layer(cell, UNITS)
    layer.build((None, None, FEATURES))
    own = layer.cell
    close(own.constants()["recurrent_kernel"], own.recurrent_kernel.numpy(), 1e-6)
    own.recurrent_kernel.assign(7.0 * own.recurrent_kernel)  # a direction has no length
    lengths = np.linalg.norm(own.constants()["recurrent_kernel"], axis=0)
    close(lengths, own.recurrent_gain.numpy(), 1e-6)


# Whole models.


@pytest.mark.parametrize("cell", ["lstm", "gru", "peephole_projected_lstm", "layer_norm_gru"])
@pytest.mark.parametrize("name", ["luong", "luong-fed", "bahdanau"])
def test_decoders_keep_one_drawing_over_all_steps_of_a_sentence(cell, name):
    model = make_model(name, cell=cell, variational_dropout=DROPPED)
    decoder, target = model.decoder, tf.constant([[2, 4, 5, 6], [2, 7, 4, 0]])
    memory, state = decoder.prepare(model.encoder(sentences([2, 4])))
    generators = [layer.seed_generator.state for layer in decoder.stack.layers]
    before = [generator.numpy() for generator in generators]
    masks = decoder.stack.draw_masks(2)
    for generator, value in zip(generators, before, strict=True):
        generator.assign(value)
    features, _ = decoder(target, memory, state, training=True)
    embedded = decoder.embedding(target)
    for position in range(4):
        words = embedded[:, position : position + 1]
        step = decoder.advance(words, memory, state, True, masks)
        close(step.features, features[:, position : position + 1])
        state = step.state
    assert np.abs(features - decoder(target, memory, state, training=True)[0]).max() > 1e-3


@pytest.mark.parametrize("name", ["luong", "luong-fed"])
def test_a_model_that_drops_is_compiled_by_xla(name):
    model = make_model(name, cell="weight_norm_lstm", variational_dropout=DROPPED)
    keras_recurrent.refuse_cudnn(model)
    model.drop_pads = False
    labels = sentences([3, 1], seed=5)
    batch = {"source": sentences([2, 4]), "target": shifted(labels)}
    variables = [variable.value for variable in model.trainable_variables]

    @functools.partial(tf.function, jit_compile=True)
    def gradients():
        with tf.GradientTape() as tape:
            loss = model.loss_sums(batch, labels, tf.constant([1, 2])).loss
        return loss, [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    losses = [gradients()[0] for _ in range(3)]
    assert len({float(loss) for loss in losses}) == 3
    assert all(np.isfinite(each).all() for each in gradients()[1])


def test_a_decoder_that_would_draw_at_every_step_is_refused():
    model = make_model("bahdanau", variational_dropout=DROPPED)
    memory, state = model.decoder.prepare(model.encoder(sentences([2])))
    embedded = model.decoder.embedding(tf.constant([[4]]))
    with pytest.raises(UserError, match=r"model\.variational_dropout.*steps.*set its shares to 0"):
        model.decoder.advance(embedded, memory, state, training=True)


@pytest.mark.parametrize(("cell", "name"), zip(STEPS, itertools.cycle(MODELS), strict=False))
def test_a_model_of_every_cell_translates_as_it_scores(cell, name):
    """By steps with states reordered by a beam, and by whole sequences: the same numbers."""
    assert_translates_as_it_scores(make_model(name, cell=cell, scale=1.0))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_whose_state_holds_a_memory_translates_as_it_scores(name):
    decoder = {**MODELS[name]["decoder"], "bridge": "zero"}
    assert_translates_as_it_scores(make_model(name, decoder=decoder, scale=1.0, **NTM))


@pytest.mark.parametrize("bridge", ["copy", "dense"])
def test_only_zero_bridges_a_state_that_holds_a_memory(bridge):
    decoder = {**MODELS["luong"]["decoder"], "bridge": bridge}
    with pytest.raises(UserError, match=rf"model\.decoder\.bridge '{bridge}'.*'ntm'.*use 'zero'"):
        make_model(decoder=decoder, **NTM)


def test_the_state_of_a_memory_is_not_dropped_from():
    with pytest.raises(UserError, match=r"model\.variational_dropout\.recurrent.*set it to 0"):
        make_layer("ntm", UNITS, variational_dropout={"recurrent": 0.5})
    layer = make("ntm", NTM["cell_options"], variational_dropout={"inputs": 0.5})
    sequences, mask = inputs()
    outputs, *states = layer(sequences, mask=mask)
    assert [tuple(state.shape[1:]) for state in states] == shapes_of(layer)
    assert np.abs(layer(sequences, mask=mask, training=True)[0] - outputs).max() > 1e-3


def assert_translates_as_it_scores(model):
    source = sentences([2, 4, 1])
    translate = tf.function(lambda ids: model.translate(ids, search_options(nbest=2)))
    found = translate(source)
    for rank in range(2):
        labels = found.ids[:, rank]
        forced = model.force(source, shifted(labels), labels)
        total = tf.reduce_sum(forced.log_probabilities, 1)
        close(found.log_probabilities[:, rank], total, 1e-4)
