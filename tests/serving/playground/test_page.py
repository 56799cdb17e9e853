"""The playground's page in a browser, as a user sees it; skipped where there is no browser."""

import json
import shutil
import subprocess

import pytest
import tensorflow as tf

from serving.playground.server import Playground
from serving.server.main import Server
from serving.server.options import ServerOptions

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra dev")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        pytest.skip(f"none of the browsers {', '.join(BROWSERS)} is on PATH")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox"]  # Its own, which root and containers cannot have.
        browser = started.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens a page, which must not complain; a width in pixels and a colour scheme may be given."""
    contexts, complaints = [], []

    def open_page(address, width=1000, scheme="light"):
        viewport = {"width": width, "height": 800}
        contexts.append(browser.new_context(viewport=viewport, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://{address}/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


class TinyCaptioner(tf.Module):
    """Says how many bytes a picture has; of what is no PNG or JPEG, that it is none."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def caption(self, image_bytes):
        wrong = tf.cast(~self._known(image_bytes), tf.int32)
        return {
            "caption": self._words(image_bytes),
            "score": tf.zeros_like(wrong, tf.float32),
            "error_code": 2 * wrong,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def align(self, image_bytes):
        rows = tf.shape(image_bytes)[0]
        corners = tf.reshape(tf.one_hot([0, 15], 16), [1, 2, 4, 4])
        padded = tf.pad(corners, [[0, 0], [0, 1], [0, 0], [0, 0]])
        return {
            "caption": self._words(image_bytes),
            "target_tokens": tf.tile([["▁a", "▁picture", ""]], [rows, 1]),
            "alignment": tf.tile(padded, [rows, 1, 1, 1]),
            "error_code": 2 * tf.cast(~self._known(image_bytes), tf.int32),
        }

    def _known(self, files):
        return tf.strings.regex_full_match(tf.strings.substr(files, 1, 3), "PNG")

    def _words(self, files):
        return tf.strings.join(["a picture of ", tf.strings.as_string(tf.strings.length(files))])


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    base = tmp_path_factory.mktemp("served") / "captioning"
    model = TinyCaptioner()
    signatures = {"serving_default": model.caption, "align": model.align}
    tf.saved_model.save(model, str(base / "1"), signatures=signatures)
    options = ServerOptions("captioning", base, port=0, rest_api_port=0)
    with Server(options) as server, Playground(port=0) as playground:
        playground.start(f"http://{server.addresses.rest}", "captioning")
        yield playground


@pytest.fixture(scope="module")
def translator(tiny_server):
    with Playground(port=0) as playground:
        playground.start(f"http://{tiny_server.addresses.rest}", "translation")
        yield playground


def translated(page, text):
    page.get_by_label("Text").fill(text)
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Alignment").wait_for()
    return page


def test_a_text_is_translated_by_the_keyboard_alone(open_page, translator):
    page = translated(open_page(translator.address), "save the file")
    items = page.get_by_role("listitem").all_inner_texts()
    assert [item.split("\n") for item in items] == [
        ["SAVE THE FILE", "-4.33"],
        ["save the file", "-5.33"],
    ]
    assert page.get_by_role("status").inner_text() == "version 3, available"


def test_the_alignment_is_a_table_that_can_be_read_aloud(open_page, translator):
    page = translated(open_page(translator.address), "save <b>it")
    table = page.get_by_role("region", name="Alignment").get_by_role("table")
    assert table.get_by_role("columnheader").all_inner_texts() == ["save", "<b>it"]
    assert table.get_by_role("rowheader").all_inner_texts() == ["SAVE", "<B>IT"]
    cells = table.locator("tbody td")
    assert cells.all_text_contents() == ["0.50"] * 4
    assert cells.first.get_attribute("title") == "SAVE ← save: 0.50"
    shades = cells.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert len(set(shades)) == 1 and "0.525" in shades[0]


def test_the_command_gives_the_same_answer_in_a_shell(open_page, translator):
    curl = shutil.which("curl")
    if not curl:
        pytest.skip("curl is not on PATH")
    page = translated(open_page(translator.address), 'it\'s "new" $HOME')
    command = page.get_by_label("The same from a terminal").inner_text()
    answer = subprocess.run(["bash", "-c", command], capture_output=True, timeout=30, check=True)
    outputs = json.loads(answer.stdout)["outputs"]
    assert outputs["translations"][0][0] == 'IT\'S "NEW" $HOME'


def picture(tmp_path, name="photo.png"):
    path = tmp_path / name
    path.write_bytes(tf.io.encode_png(tf.fill([40, 60, 3], tf.constant(200, tf.uint8))).numpy())
    return path


def darkness(page, x, y):
    """How much the map hides of a place of the picture, 0 to 255."""
    pixel = "(map, [x, y]) => map.getContext('2d').getImageData(x, y, 1, 1).data[3]"
    return page.locator("#map").evaluate(pixel, [x, y])


def test_a_picture_is_captioned_and_the_map_of_each_piece_drawn(open_page, captioner, tmp_path):
    page = open_page(captioner.address)
    path = picture(tmp_path)
    page.get_by_label("Drop a picture here").set_input_files(path)
    page.get_by_text(f"a picture of {path.stat().st_size}").wait_for()
    pieces = page.get_by_role("radiogroup", name="Where it looked").get_by_role("radio")
    assert pieces.all_inner_texts() == ["a", "picture"]
    assert (darkness(page, 0, 0), darkness(page, 3, 3)) == (0, 215)
    pieces.first.focus()
    page.keyboard.press("ArrowRight")
    assert pieces.nth(1).get_attribute("aria-checked") == "true"
    assert pieces.nth(1).evaluate("one => one === document.activeElement")
    assert (darkness(page, 0, 0), darkness(page, 3, 3)) == (215, 0)
    assert "base64 -w0 'photo.png'" in page.get_by_label("The same from a terminal").inner_text()


def test_what_is_no_picture_is_told(open_page, captioner, tmp_path):
    path = tmp_path / "notes.png"
    path.write_bytes(b"these are notes")
    page = open_page(captioner.address)
    page.get_by_label("Drop a picture here").set_input_files(path)
    page.get_by_role("alert").wait_for()
    assert "no picture that the model can read" in page.get_by_role("alert").inner_text()


def test_another_model_is_told_and_its_own_is_found_again(open_page, translator):
    page = open_page(translator.address)
    page.get_by_label("Text").wait_for()
    page.get_by_label("Model").fill("absent")
    page.keyboard.press("Enter")
    page.get_by_text("Could not find any versions").wait_for()
    assert page.get_by_label("Text").is_hidden()
    page.get_by_label("Model").fill("translation")
    page.keyboard.press("Enter")
    page.get_by_label("Text").wait_for()


def test_a_phone_shows_all_within_its_width(open_page, translator):
    page = translated(open_page(translator.address, width=360), " ".join("abcdefghijklmnopqrst"))
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    heat = page.get_by_role("region", name="Alignment")
    assert heat.evaluate("one => one.scrollWidth > one.clientWidth")  # It scrolls by itself.
    button = page.get_by_role("button", name="Translate").bounding_box()
    assert button["height"] >= 44 and button["width"] > 250


def test_a_long_text_is_seen_whole_on_a_phone(open_page, translator):
    text = open_page(translator.address, width=360).get_by_label("Text", exact=True)
    text.fill("The two young men cross the railway bridge near the old town. " * 3)
    shown, whole = text.evaluate("one => [one.clientHeight, one.scrollHeight]")
    assert whole > 100 and shown >= whole - 1


def luminance(colour):
    numbers = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [n / 12.92 if n <= 0.04045 else ((n + 0.055) / 1.055) ** 2.4 for n in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_system_and_can_be_told_apart(open_page, translator, scheme, is_dark):
    page = translated(open_page(translator.address, scheme=scheme), "save")
    style = "(one, name) => getComputedStyle(one)[name]"
    ground = luminance(page.locator("body").evaluate(style, "backgroundColor"))
    assert (ground < 0.05) is is_dark
    card = luminance(page.locator("#answers").evaluate(style, "backgroundColor"))
    for place in ("#source-hint", ".score", "#nbest li:first-child", "#status"):
        ink = luminance(page.locator(place).first.evaluate(style, "color"))
        contrast = (max(ink, card) + 0.05) / (min(ink, card) + 0.05)
        assert contrast >= 4.5, (place, contrast)


def test_every_field_and_button_has_a_name(open_page, captioner, translator):
    for address in (captioner.address, translator.address):
        page = open_page(address)
        page.locator("#translate, #caption").locator("visible=true").first.wait_for()
        fields = page.locator("input:visible, textarea:visible, button:visible")
        assert fields.count() >= 3
        nameless = fields.evaluate_all(
            "all => all.filter(one => !(one.labels?.length || one.textContent.trim()))"
            ".map(one => one.outerHTML)"
        )
        assert nameless == []
